"""From files and frameworks to NIR graphs."""
