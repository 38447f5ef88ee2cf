"""A plugin as somebody else would write it: names only; what is behind them is imported when it is used."""

from nirbridge.plugins import Plugin

PLUGIN = Plugin(
    chips={"tiny": "nirbridge_example_plugin:data/tiny.toml"},
    importers={"weights": "nirbridge_example_plugin.weights:from_weights"},
    passes={"louder": "nirbridge_example_plugin.weights:Louder"},
    partitioners={"one_each": "nirbridge_example_plugin.cores:one_each"},
    emitters={
        "csv": "nirbridge_example_plugin.table:CSV",
        "stepper": "nirbridge_example_plugin.stepper:STEPPER",
    },
    simulators={"twice": "nirbridge_example_plugin.table:TWICE"},
)
