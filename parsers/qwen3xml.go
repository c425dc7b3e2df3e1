package parsers

// Qwen3XML is Qwen3Coder under its second name.
var Qwen3XML = qwenXML("qwen3_xml").family()
