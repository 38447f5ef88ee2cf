"""The dialect: networks as MLIR operations of their own, with verifiers, text that parses back, and a lowering."""
