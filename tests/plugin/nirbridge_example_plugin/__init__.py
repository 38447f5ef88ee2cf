"""An example plugin: names only; the objects that they stand for are imported when used."""

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
