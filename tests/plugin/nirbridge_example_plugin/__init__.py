"""A plugin as somebody else would write it: names only; what is behind them is imported when it is asked for."""

from nirbridge.plugins import Plugin

PLUGIN = Plugin(
    chips={"tiny": "nirbridge_example_plugin:data/tiny.toml"},
    importers={"weights": "nirbridge_example_plugin.weights:from_weights"},
    passes={"louder": "nirbridge_example_plugin.weights:Louder"},
    partitioners={"one_each": "nirbridge_example_plugin.cores:one_each"},
    emitters={"csv": "nirbridge_example_plugin.table:emit"},
    simulators={"twice": "nirbridge_example_plugin.table:simulate_twice"},
)
