"""Energy, time, accuracy and activity of a network on a chip, measured on the user's data."""
