"""Pictures of values for notebooks: SVG of attributes alone, without script and style, each of some 30 KB at most."""
