// Package chattemplate renders conversations with a model's own chat template.
//
// A [Template] renders a first prompt ([Template.Prompt]) and then only what each
// turn adds ([Template.Bridge]). The result is pieces: the control tokens of the template
// are separate from the text of messages, which may spell the same. [New] finds out by
// small renderings what a template can do ([Verdict]). A Template does not change and is
// safe for concurrent use; every rendering is bounded by [Options].
//
// [RenderLines] is the line protocol behind `hermes model render --jsonl`. The
// language of the templates is the business of internal/jinja.
package chattemplate
