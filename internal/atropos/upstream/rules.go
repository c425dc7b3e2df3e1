package upstream

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// writer says settings in flags of hermes.
type writer struct {
	r     *reader
	out   []string
	notes []string
	said  map[string]string // by flag: what said it
}

// give adds a flag; a flag of hermes that says the same is an error.
func (w *writer) give(flag, value, from string) error {
	name := canonical(flag)
	if own, ok := w.r.native[name]; ok {
		return fmt.Errorf("%s and %s say the same: leave one out", from, own)
	}
	w.said[name] = from
	w.out = append(w.out, "--"+flag+"="+value)
	return nil
}

// offer adds a flag that was not given.
func (w *writer) offer(flag, value string) {
	if _, own := w.r.native[canonical(flag)]; !own && w.said[canonical(flag)] == "" {
		w.said[canonical(flag)] = "default"
		w.out = append(w.out, "--"+flag+"="+value)
	}
}

func (w *writer) note(format string, args ...any) {
	w.notes = append(w.notes, fmt.Sprintf(format, args...))
}

// plain are keys of `env` that have a flag with the same values.
func plain() map[string]string {
	return map[string]string{
		"group_size": "group-size", "max_eval_workers": "eval-workers", "eval_limit_ratio": "eval-limit-ratio", "inference_weight": "inference-weight",
		"max_batches_offpolicy": "max-batches-offpolicy", "rollout_server_url": "api", "wandb_name": "env-name", "data_path_to_save_groups": "groups-file",
		"min_items_sent_before_logging": "log-after", "min_batch_allocation": "min-batch-allocation", "reasoning_effort": "reasoning-effort",
		"enabled_toolsets": "toolsets", "distribution": "distribution", "max_agent_turns": "max-turns", "agent_temperature": "temperature",
		"terminal_backend": "backend", "extra_body": "extra-body", "tool_call_parser": "family",
	}
}

// ignored are keys that have no effect here, with the reason.
func ignored() map[string]string {
	return map[string]string{
		"batch_size": "the trainer's counts", "num_rollouts_to_keep": "every rollout is in the run directory", "num_rollouts_per_group_for_logging": "every rollout is in the run directory",
		"data_dir_to_save_evals": "evaluations are in metrics.jsonl of the run directory", "tool_pool_size": "tools run in their rollout's own goroutine",
		"terminal_timeout": "tools have their own time-outs", "terminal_lifetime": "boxes live as long as their rollouts",
		"max_num_workers_per_node": "--concurrency bounds all servers together",
	}
}

// refused are keys that would change what is sampled and that hermes says otherwise.
func refused() map[string]string {
	return map[string]string{
		"thinking_mode": "--template-kwargs switches a model's thinking", "max_reasoning_tokens": "--max-tokens or --reasoning-effort bounds it", "custom_thinking_prompt": "the environment writes its own messages",
		"system_prompt": "the environment writes its own messages", "disabled_toolsets": "--toolsets names those that are wanted",
	}
}

// all writes every setting, in the order of their names.
func (w *writer) all() error {
	for _, key := range slices.Sorted(maps.Keys(w.r.env)) {
		if err := w.env(key, w.r.env[key]); err != nil {
			return err
		}
	}
	for i, server := range w.r.servers {
		if err := w.server(i, server); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(w.r.bare)) {
		s := w.r.bare[key]
		yes, err := s.yes()
		switch {
		case key == "max_n_completions" || key == "proxy_url":
			w.note("%s has no effect, as in Atropos", s.from)
		case err != nil:
			return err
		case key == "slurm" && yes:
			return fmt.Errorf("%s: the hosts of a Slurm job are not looked up: name the model servers with --base-url, or list them in a file with --base-url @FILE", s.from)
		case key == "testing" && yes:
			for _, f := range [][2]string{{"model", "scripted"}, {"exact", "true"}, {"wire", "sglang"}} {
				if err := w.give(f[0], f[1], s.from); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// env writes one key of `env`.
func (w *writer) env(key string, s setting) error {
	if flag := plain()[key]; flag != "" {
		if s.value == nil {
			return nil
		}
		return w.give(flag, text(s.value), s.from)
	}
	if why := ignored()[key]; why != "" {
		w.note("%s has no effect: %s", s.from, why)
		return nil
	}
	if why := refused()[key]; why != "" {
		if on, err := s.yes(); s.value == nil || err == nil && !on || text(s.value) == "" {
			return nil
		}
		return fmt.Errorf("%s: hermes does not take it: %s", s.from, why)
	}
	switch key {
	case "max_num_workers":
		n, err := s.whole()
		if err != nil || n < 1 {
			return err
		}
		return w.give("concurrency", fmt.Sprint(n*w.r.group()), s.from) // a worker is a group
	case "max_token_length":
		n, err := s.whole()
		if err != nil {
			return err
		}
		w.offer("max-tokens", fmt.Sprint(n)) // environments of Atropos ask for as many
		return w.give("max-token-length", fmt.Sprint(n), s.from)
	case "total_steps", "steps_per_eval":
		n, err := s.whole()
		if err != nil {
			return err
		}
		return w.give(strings.ReplaceAll(key, "_", "-"), fmt.Sprint(max(n, 0)), s.from) // -1: the trainer's, or never
	case "eval_handling":
		v := text(s.value)
		return w.give("eval-handling", v[strings.LastIndexByte(v, '.')+1:], s.from)
	case "tokenizer_name":
		return w.tokenizer(s)
	case "worker_timeout":
		d, err := s.seconds()
		if err != nil || d == "0s" {
			return err
		}
		return w.give("timeout", d, s.from)
	}
	return w.truths(key, s)
}

// truths writes keys that are true or false, and leaves all others to the environment.
func (w *writer) truths(key string, s setting) error {
	switch key {
	case "ensure_scores_are_not_same", "use_wandb", "include_messages":
	default:
		w.add("set", strings.ReplaceAll(key, "_", "-")+"="+text(s.value))
		return nil
	}
	yes, err := s.yes()
	switch {
	case err != nil:
		return err
	case key == "ensure_scores_are_not_same" && yes:
		return w.give("equal-scores", "drop", s.from)
	case key == "ensure_scores_are_not_same":
		return w.give("equal-scores", "send", s.from)
	case key == "include_messages" && yes:
		return w.give("send-messages", "true", s.from)
	case key == "use_wandb" && yes:
		w.note("%s: metrics are written under Atropos' names to metrics.jsonl of the run directory and to --metrics; W&B gets them with --wandb online or offline", s.from)
	}
	return nil
}

// add adds a flag that may repeat.
func (w *writer) add(flag, value string) { w.out = append(w.out, "--"+flag+"="+value) }

// tokenizer names the model's files: a folder as it is, else on the hub.
func (w *writer) tokenizer(s setting) error {
	name := text(s.value)
	if s.value == nil || name == "none" {
		return nil
	}
	if strings.HasPrefix(name, "builtin:") {
		return w.give("tokenizer", name, s.from)
	}
	if !strings.HasPrefix(name, "/") && !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "hf:") {
		name = "hf:" + name
	}
	return w.give("model-files", name, s.from)
}

// server writes one model server; the first says what all have in common.
func (w *writer) server(i int, server map[string]setting) error {
	for _, key := range slices.Sorted(maps.Keys(server)) {
		s := server[key]
		if s.value == nil {
			continue
		}
		if i > 0 && (key == "model_name" || key == "server_type") {
			if other := w.r.servers[0][key]; text(other.value) != text(s.value) {
				return fmt.Errorf("%s is %v, that of the first server %v: all servers of a run serve one model", s.from, s.value, other.value)
			}
			continue
		}
		var err error
		switch key {
		case "base_url":
			if i == 0 {
				err = w.give("base-url", text(s.value), s.from)
			} else {
				w.add("base-url", text(s.value))
			}
		case "model_name":
			name := text(s.value)
			if name == "default" {
				name = "auto"
			}
			err = w.give("model", name, s.from)
		case "server_type":
			err = w.wire(s)
		case "tokenizer_name":
			if i == 0 && w.said["model-files"] == "" {
				err = w.tokenizer(s)
			}
		case "timeout":
			var d string
			d, err = s.seconds()
			if err == nil && i == 0 {
				err = w.give("request-timeout", d, s.from)
			}
		case "num_requests_for_eval":
			if i == 0 && w.said["eval-workers"] == "" {
				err = w.give("eval-workers", text(s.value), s.from)
			}
		case "api_key":
			if v := text(s.value); v != "" && v != "x" && !strings.EqualFold(v, "empty") && !strings.EqualFold(v, "none") {
				w.note("%s is not read: keys come from the environment (OPENAI_API_KEY, or --api-key-env NAME)", s.from)
			}
		case "num_max_requests_at_once", "weight", "health_check", "rolling_buffer_length", "n_kwarg_is_ignored", "max_n_completions":
			w.note("%s has no effect: requests follow the servers' own queues", s.from)
		default:
			err = fmt.Errorf("%s: Atropos' servers have no such setting", s.from)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// wire says what a server is asked.
func (w *writer) wire(s setting) error {
	switch kind := text(s.value); kind {
	case "sglang", "vllm":
		w.offer("exact", "true")
		return w.give("wire", kind, s.from)
	case "openai":
		return nil // text: `env serve` says what to do
	case "trl":
		return fmt.Errorf("%s: hermes does not ask TRL's server: serve the model with SGLang or vLLM", s.from)
	default:
		return fmt.Errorf("%s: %q is no kind of server (openai, trl, sglang, vllm)", s.from, kind)
	}
}
