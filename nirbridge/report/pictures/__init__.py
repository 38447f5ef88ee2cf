"""Geometry of pictures: values as frozen coordinates and texts, drawn by matplotlib or as SVG."""
