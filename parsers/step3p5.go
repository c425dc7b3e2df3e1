package parsers

// Step3p5 is Step 3.5 and 3.7: the calls of Qwen3-Coder.
var Step3p5 = qwenXML("step3p5").family()
