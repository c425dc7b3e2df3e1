package parsers

// Qwen is Hermes under the name that servers use for Qwen 2.5 and 3.
var Qwen = hermesGrammar("qwen").family()
