"""Event data: files of events and NIR's own data, read, binned into time steps, and written."""
