package parsers

// PoolsideV1 is Laguna: the calls of GLM.
var PoolsideV1 = glmGrammar("poolside_v1", "tool_call", "\n").family()
