"""Files of networks, and the form of values that files of later stages share."""
