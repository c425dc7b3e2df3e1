package parsers

// NemotronV3 is Nemotron 3: the calls of Qwen3-Coder.
var NemotronV3 = qwenXML("nemotron_v3").family()
