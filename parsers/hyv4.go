package parsers

// HyV4 is Hunyuan 4: the calls of Hunyuan 3 without a mark behind the name of the tool.
var HyV4 = hunyuan("hy_v4", "").family()
