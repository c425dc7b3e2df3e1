package parsers

// IQuestQ1 is IQuest Q1: the calls of GLM-4.7 in its own tag.
// A body that holds anything else is no call.
var IQuestQ1 = glmGrammar("iquest_q1", "iquest_tool_call", "").family()
