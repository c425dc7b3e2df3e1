package parsers

// Granite4 is Granite 4.0: as Hermes, text outside the tags is kept everywhere.
var Granite4 = hermesGrammar("granite4").family()
