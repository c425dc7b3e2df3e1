package upstream_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"hermes/internal/atropos/upstream"
)

// files are read by name.
func files(name string) ([]byte, error) {
	text, ok := map[string]string{
		"atropos.yaml": `
env:
  group_size: 8
  max_num_workers: 16
  max_token_length: 4096
  tokenizer_name: owner/model
  total_steps: -1
  steps_per_eval: 25
  rollout_server_url: http://host:8000
  use_wandb: true
  wandb_name: mine
  ensure_scores_are_not_same: false
  eval_handling: LIMIT_TRAIN
  max_batches_offpolicy: 3
  batch_size: 128
  worker_timeout: 600
  thinking_mode: false
  enabled_toolsets: [terminal, file]
  extra_body: {top_k: 3}
  min_batch_allocation: null
openai:
  - {model_name: m, base_url: "http://a/v1", server_type: sglang, api_key: x, timeout: 30, health_check: true}
  - {model_name: m, base_url: "http://b/v1", server_type: sglang}
slurm: false
testing: false
tinker: {lora_rank: 32}
`,
		"one.yaml":    "openai: {model_name: default, base_url: \"http://a/v1\", server_type: vllm, api_key: abcdef}\n",
		"two.yaml":    "openai: [{model_name: m}, {model_name: n}]\n",
		"native.yaml": "model: m\ntraining: {advantages: grpo}\n",
	}[name]
	if !ok {
		return nil, errors.New("no such file")
	}
	return []byte(text), nil
}

func TestTranslate(t *testing.T) {
	tests := []struct {
		name, in, want, notes string
	}{
		{name: "hermes' own stay", in: "procedural --group-size 4 -c native.yaml -- x", want: "procedural --group-size 4 -c native.yaml -- x"},
		{name: "a file that is not there", in: "e --config gone.yaml", want: "e --config gone.yaml"},
		{
			name: "flags",
			in:   "e --env.group_size 8 --env.total_steps=-1 --slurm False --testing false --env.include_messages",
			want: "e --group-size=8 --send-messages=true --total-steps=0",
		},
		{name: "a negative number is a value", in: "--env.max_batches_offpolicy -1 e", want: "e --max-batches-offpolicy=-1"},
		{name: "None is nothing", in: "e --env.wandb_name None --env.use_wandb false", want: "e"},
		{name: "unknown keys are the environment's", in: "e --env.max_level 3", want: "e --set=max-level=3"},
		{name: "an embedded tokenizer", in: "e --env.tokenizer_name builtin:words", want: "e --tokenizer=builtin:words"},
		{name: "testing", in: "--testing e", want: "e --model=scripted --exact=true --wire=sglang"},
		{
			name: "a server",
			in:   "e --openai.base_url http://x/v1 --openai.server_type sglang --openai.model_name m",
			want: "e --base-url=http://x/v1 --model=m --exact=true --wire=sglang",
		},
		{
			name:  "a flag over the file",
			in:    "e --config one.yaml --openai.model_name z",
			want:  "e --base-url=http://a/v1 --model=z --exact=true --wire=vllm",
			notes: "openai[0].api_key is not read",
		},
		{name: "workers are groups", in: "e --group-size 3 --env.max_num_workers 5", want: "e --group-size 3 --concurrency=15"},
		{name: "a whole file", in: "e --env.group_size=4 --config atropos.yaml", notes: "batch_size has no effect;W&B;health_check has no effect",
			want: "e --toolsets=terminal,file --equal-scores=send --eval-handling=LIMIT_TRAIN --extra-body={\"top_k\":3} --group-size=4 --max-batches-offpolicy=3 --concurrency=64 --max-tokens=4096 --max-token-length=4096 " +
				"--api=http://host:8000 --steps-per-eval=25 --model-files=hf:owner/model --total-steps=0 --env-name=mine --timeout=600s --base-url=http://a/v1 --model=m --exact=true --wire=sglang --request-timeout=30s --base-url=http://b/v1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := upstream.Translate(strings.Fields(tt.in), files)
			if err != nil {
				t.Fatal(err)
			}
			if text := strings.Join(got.Args, " "); text != tt.want {
				t.Errorf("got  %s\nwant %s", text, tt.want)
			}
			for _, n := range strings.Split(tt.notes, ";") {
				if !strings.Contains(strings.Join(got.Notes, "\n"), n) {
					t.Errorf("notes %q lack %q", got.Notes, n)
				}
			}
			if slices.ContainsFunc(got.Notes, func(n string) bool { return strings.Contains(n, "abcdef") }) {
				t.Error("a note tells the key")
			}
		})
	}
}

func TestRefused(t *testing.T) {
	for in, want := range map[string]string{
		"e --env.group_size 8 --group-size 4":                    "--env.group_size and --group-size say the same",
		"e --env.group_size 8 -n 4":                              "-n say the same",
		"e --env.max_num_workers 8 --in-flight 4":                "--env.max_num_workers and --in-flight",
		"e --config atropos.yaml --api http://x":                 "atropos.yaml: env.rollout_server_url and --api",
		"e --config atropos.yaml --openai.base_url http://x":     "names 2 servers",
		"e --config two.yaml":                                    "all servers of a run serve one model",
		"e --slurm":                                              "--base-url",
		"e --env.thinking_mode True":                             "--template-kwargs",
		"e --env.total_steps many":                               "want a whole number, got many",
		"e --openai.server_type trl":                             "TRL",
		"e --openai.server_type x":                               "no kind of server",
		"e --openai.base_urll x":                                 "no such setting",
		"e --env.use_wandb maybe":                                "want true or false, got maybe",
		"e --env.worker_timeout soon":                            "want seconds",
		"e --openai.server_type sglang --wire vllm":              "--openai.server_type and --wire",
		"e --testing --model m":                                  "--testing and --model",
		"e --env.ensure_scores_are_not_same --equal-scores=send": "--equal-scores",
	} {
		if _, err := upstream.Translate(strings.Fields(in), files); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", in, err, want)
		}
	}
}
