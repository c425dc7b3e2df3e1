package parsers

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"hermes/internal/nearest"
)

// ErrUnknown says that no family has the name.
var ErrUnknown = errors.New("unknown family")

// Builtin lists the families that ship with hermes.
func Builtin() []Family {
	return []Family{
		Hermes, Qwen, Granite4, Longcat, Ernie45, Minimax, Jamba, HunyuanA13B, XLAM, Apertus, Dots, Cohere3, Cohere4, JSONArray,
		Llama3, Llama4, Mistral, Phi4Mini, Granite, Granite20bFC, InternLM, Gigachat3, Gigachat35, Plamo3, SolarOpen, NemotronV2, FunctionaryV31, FunctionaryV32,
		DeepSeekV3, DeepSeekV31, DeepSeekV32, DeepSeekV4, DeepSeekV41, KimiK2, KimiK3,
		Qwen3Coder, Qwen3XML, NemotronV3, MiMo, SeedOSS, Step3p5, Step5, GLM45, GLM47, Ling3, Spark25, IQuestQ1, K2Horizon, PoolsideV1, HyV3, HyV4, MinimaxM2, MinimaxM3, Step3, MiniCPM5,
		Gemma4, FunctionGemma, MuseGlimmer, Muse, Pythonic, Llama4Pythonic, Olmo3, LFM2, Harmony, Beam, Inkling, Plain,
	}
}

// aliases are the names that servers and upstream use for the same families.
var aliases = map[string]string{
	"qwen25": "qwen", "qwen2_5": "qwen", "trinity": "hermes", "chatml": "hermes",
	"llama3": "llama3_json", "llama": "llama3_json", "phi4": "phi4_mini_json",
	"deepseekv3": "deepseek_v3", "deepseek_v31": "deepseek_v3_1", "deepseekv31": "deepseek_v3_1", "deepseekv32": "deepseek_v32",
	"deepseek_v3_2": "deepseek_v32", "deepseekv4": "deepseek_v4", "deepseekv41": "deepseek_v41", "deepseek_v4_1": "deepseek_v41", "nanbeige": "qwen3_coder", "qwen3coder": "qwen3_coder",
	"nemotron_3": "nemotron_v3", "nemotron": "nemotron_v3", "glm": "glm45", "hunyuan": "hy_v3",
	"apertus2509": "apertus", "granite_20b_fc": "granite-20b-fc", "qwen3_json": "hermes", "musespark1x": "muse", "muse_spark": "muse", "openai_gptoss": "openai",
	"hyv4": "hy_v4", "hunyuan4": "hy_v4", "spark_25": "spark25", "iquest": "iquest_q1", "k2horizon": "k2_horizon", "k2_v3": "k2_horizon", "ifm": "k2_horizon", "gigachat_35": "gigachat35", "interns1": "internlm", "gpt_oss": "openai", "harmony": "openai",
	"cohere": "cohere_command4", "kimi": "kimi_k2", "ernie": "ernie45", "poolside": "poolside_v1",
	"functionary_v3.1": "functionary_v3_1", "functionary_v3.2": "functionary_v3_2", "functionary": "functionary_v3_2", "hyv3": "hy_v3", "olmo": "olmo3", "none": "plain", "identity": "plain",
}

// Plain reads nothing: the text is the content.
var Plain = grammar{
	name:   "plain",
	read:   func(p *parse) { p.content(p.pos, len(p.text)) },
	format: func(content string, _ []Call) string { return content },
}.family()

// Set finds families by name. It does not change and is safe for concurrent use.
type Set struct {
	list   []Family
	byName map[string]Family
}

// NewSet makes a set of families; a name that occurs twice is an error.
func NewSet(families ...Family) (*Set, error) {
	s := &Set{list: slices.Clone(families), byName: map[string]Family{}}
	for _, f := range families {
		if _, ok := s.byName[f.Name]; ok || f.Name == "" || f.New == nil {
			return nil, fmt.Errorf("family %q: no name, no parser, or there twice", f.Name)
		}
		s.byName[f.Name] = f
	}
	return s, nil
}

// Standard is the set of the built-in families.
func Standard() *Set {
	s, err := NewSet(Builtin()...)
	if err != nil {
		panic(err) // a mistake in Builtin, which every test would meet
	}
	return s
}

// Families lists the set in its order.
func (s *Set) Families() []Family { return slices.Clone(s.list) }

// Get finds a family by its name, an alias, reasoning:NAME, reasoning:NAME+FAMILY or
// NAME_reasoning+FAMILY; what follows a slash is dropped. The error wraps
// [ErrUnknown] and lists the nearest names.
func (s *Set) Get(name string) (Family, error) {
	if base, rest, ok := strings.Cut(name, "_reasoning+"); ok {
		name = "reasoning:" + base + "+" + rest
	}
	if r, ok := strings.CutPrefix(name, "reasoning:"); ok {
		return s.reasoning(r)
	}
	name, _, _ = strings.Cut(name, "/")
	if f, ok := s.byName[name]; ok {
		return f, nil
	}
	for _, other := range []string{plainName(name), aliases[plainName(name)]} {
		if f, ok := s.byName[other]; ok {
			return f, nil
		}
	}
	names := make([]string, 0, len(s.list))
	for _, f := range s.list {
		names = append(names, f.Name)
	}
	return Family{}, fmt.Errorf("%w %q (nearest: %s)", ErrUnknown, name, strings.Join(nearest.Names(name, names, 5), ", "))
}

// plainName is a name as the aliases have it: small letters, and no hyphens, which some servers
// write for underscores.
func plainName(name string) string { return strings.ReplaceAll(strings.ToLower(name), "-", "_") }
