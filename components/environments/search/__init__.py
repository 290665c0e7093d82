"""Multi-hop questions: a searcher queries a corpus, a reasoner asks sub-questions and answers."""
