package parsers

// Step5 is Step 5: the calls of Qwen3-Coder; blanks around the calls are content.
var Step5 = qwenXML("step5").family()
