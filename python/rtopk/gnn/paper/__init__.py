"""The last table of the RTop-K paper, trained again on the graphs that it names."""
