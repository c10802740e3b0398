"""What doctor looks at, a module for each part of the way from the host to the disk."""
