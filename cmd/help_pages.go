package cmd

// page is what the help of a command shows beside its arguments.
type page struct {
	examples []string
	usual    []string // names of the flags that are shown without --help-all; none: all
}

// pages are the help pages by the path of their command. Each fits a screen.
func pages() map[string]page {
	model := []string{"model", "base-url", "api-key-env"}
	with := func(lists ...[]string) (out []string) {
		for _, l := range lists {
			out = append(out, l...)
		}
		return out
	}
	runs := []string{"rollouts", "concurrency", "max-turns", "temperature", "toolsets", "backend", "run", "retry-failed", "budget-usd", "dry-run"}
	return map[string]page{
		"": {
			examples: []string{
				"hermes batch samples:tasks --model scripted",
				"hermes batch tasks.jsonl --model NAME --base-url http://127.0.0.1:8000/v1",
				"hermes eval run arithmetic --model NAME --base-url http://127.0.0.1:8000/v1",
				"hermes runs list",
			},
		},
		"batch": {
			examples: []string{
				"hermes batch samples:tasks --model scripted --run first",
				"hermes batch tasks.jsonl --model NAME --base-url http://127.0.0.1:8000/v1 --rollouts 4 --run four",
				"hermes batch tasks.jsonl --model NAME --base-url http://127.0.0.1:8000/v1 --run plan --dry-run",
			},
			usual: with(model, runs, []string{"system", "limit", "grader", "accept", "parquet", "detach"}),
		},
		"eval run": {
			examples: []string{
				"hermes eval run samples --model scripted",
				"hermes eval run arithmetic --model NAME --base-url http://127.0.0.1:8000/v1 --run quick --limit 100",
				"hermes eval run tasks.jsonl --run numbers --grader number --model NAME --base-url http://127.0.0.1:8000/v1",
			},
			usual: with(model, runs, []string{"set", "limit", "grader", "model-role"}),
		},
		"eval score": {
			examples: []string{"hermes eval score samples --grader row"},
		},
		"env evaluate": {
			examples: []string{
				"hermes env evaluate procedural --model oracle --limit 20",
				"hermes env evaluate gsm8k --model NAME --base-url http://127.0.0.1:8000/v1",
			},
			usual: with(model, runs, []string{"split", "set", "limit", "model-role", "strict", "json"}),
		},
		"env process": {
			examples: []string{
				"hermes env process procedural --groups 4 --model oracle",
				"hermes env process gsm8k --groups 8 --rollouts 4 --model NAME --base-url http://127.0.0.1:8000/v1",
			},
			usual: with(model, runs, []string{"groups", "set", "exact", "wire", "model-files"}),
		},
		"env serve": {
			examples: []string{
				"hermes env serve gsm8k --api http://127.0.0.1:8000 --model NAME --base-url http://127.0.0.1:9001/v1 --exact --wire sglang --model-files DIR",
			},
			usual: with(model, runs, []string{"api", "set", "exact", "wire", "model-files"}),
		},
		"env check": {
			examples: []string{"hermes env check gsm8k", "hermes env check ./env.py"},
		},
		"chat": {
			examples: []string{
				"hermes chat --model NAME --base-url http://127.0.0.1:8000/v1",
				`hermes chat -q "What is in this folder?" --model scripted`,
			},
			usual: with(model, []string{"query", "system", "toolsets", "backend", "image", "max-turns", "temperature", "max-tokens", "reasoning-effort", "yes"}),
		},
		"compress": {
			examples: []string{
				"hermes compress runs/first -o small.jsonl --summary extractive --target-tokens 2000 --tokenizer builtin:words",
			},
			usual: with(model, []string{"into", "target-tokens", "summary-tokens", "protect-last", "summary", "tokenizer", "model-files", "concurrency", "sample-percent", "dry-run", "budget-usd"}),
		},
		"run-api": {
			examples: []string{"hermes run-api --port 8000 --data run-api"},
		},
		"runs view": {
			examples: []string{"hermes runs view first"},
		},
		"runs show": {
			examples: []string{"hermes runs show first", "hermes runs show first count-status-codes"},
		},
		"sandbox exec": {
			examples: []string{
				"hermes sandbox exec -- uname -a",
				"hermes sandbox exec --backend docker --image python:3.12-slim -- python3 -V",
			},
		},
		"model fake": {
			examples: []string{"hermes model fake --listen 127.0.0.1:8000"},
			usual:    []string{"listen", "script", "key", "models", "latency", "seed", "like", "faults", "tokenizer", "token", "log"},
		},
	}
}
