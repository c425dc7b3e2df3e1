// Package chattemplate renders conversations with a model's own chat template.
//
// [RenderLines] is the line protocol behind `hermes model render --jsonl`. The
// language of the templates is the business of internal/jinja.
package chattemplate
