"""Questions that take several searches: a searcher queries a corpus, a reasoner asks on and answers."""
