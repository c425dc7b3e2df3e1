package cmd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"hermes/backends"
	"hermes/internal/build"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

// toolsCmd is `hermes tools`.
type toolsCmd struct {
	List toolsList `cmd:"" help:"List the tools and whether they can be used here."`
	Show toolsShow `cmd:"" help:"Print the description of a tool as the model gets it."`
	Run  toolsRun  `cmd:"" help:"Call a tool once."`
}

// toolCatalog is the tools of this build under the built-in and the user's own toolsets.
func (h *host) toolCatalog() (*tool.Catalog, error) {
	section := h.Layers.Section("own-toolsets")
	own, err := tool.DecodeToolsets(section.Node)
	if err != nil {
		return nil, section.Errorf("%v", err)
	}
	catalog, err := tool.NewCatalog(own, h.Parts.Tools...)
	if err != nil {
		return nil, section.Errorf("%v", err)
	}
	return catalog, nil
}

type toolsList struct {
	All  bool `nokey:"" help:"Also tools that cannot be used here, with the reason."`
	JSON bool `name:"json" nokey:"" help:"A JSON array."`
}

// Run lists the tools.
func (c *toolsList) Run(h *host) error {
	catalog, err := h.toolCatalog()
	if err != nil {
		return err
	}
	hidden, err := catalog.WriteTools(h.Ctx, h.Stdio.Out, c.All, c.JSON)
	if hidden > 0 {
		fmt.Fprintf(h.Stdio.Err, "%d more are known by name and cannot be used here: hermes tools list --all\n", hidden)
	}
	return err
}

type toolsShow struct {
	Name string `arg:"" help:"Tool."`
	JSON bool   `name:"json" nokey:"" help:"What is sent to a model, as one JSON object."`
}

// Run shows one tool.
func (c *toolsShow) Run(h *host) error {
	catalog, err := h.toolCatalog()
	if err != nil {
		return err
	}
	if _, err := catalog.Get(c.Name); err != nil {
		return Usage("%w", err)
	}
	return catalog.WriteTool(h.Stdio.Out, c.Name, c.JSON)
}

type toolsRun struct {
	Name    string `arg:"" help:"Tool."`
	Args    string `arg:"" name:"json" default:"{}" help:"Arguments, one JSON object; - reads them from stdin."`
	Backend string `default:"auto" placeholder:"NAME" help:"Where the box lives: auto, or one of 'hermes sandbox list'."`
	Image   string `placeholder:"IMAGE" help:"Image of the box."`
	Seed    int64  `default:"0" help:"Seed of everything random."`
}

// maxToolArgs bounds arguments from stdin, in bytes.
const maxToolArgs = 16 << 20

// Run makes the call in a fresh box and prints the result. The exit code is 1 when the
// tool reports a failure, 2 when it was not called at all.
func (c *toolsRun) Run(h *host) error {
	catalog, err := h.toolCatalog()
	if err != nil {
		return err
	}
	def, err := catalog.Get(c.Name)
	if err != nil {
		return Usage("%w", err)
	}
	args, err := c.arguments(h)
	if err != nil {
		return err
	}
	ctx, stop := h.untilSignal()
	defer stop()
	place := &toolPlace{h: h, name: c.Backend, spec: backends.Spec{Image: c.Image, Labels: boxLabels("tools run")}}
	defer place.close(ctx)
	scope := &tool.Scope{Key: trajectory.NewKey("tools run "+c.Name, 0, 0, 0), Box: place.box, Log: h.Log,
		Rand: rand.New(rand.NewPCG(uint64(c.Seed), 0)), Now: time.Now}
	if def.Traits.NeedsBox {
		scope.Isolated, err = place.open(ctx)
		if err != nil {
			return err
		}
		if def.Fits != nil {
			box, err := place.box(ctx)
			if err != nil {
				return err
			}
			if err := def.Fits(ctx, box); err != nil {
				return Usage("tool %s: %w", c.Name, err)
			}
		}
	}
	failed, err := catalog.RunTool(ctx, h.Stdio.Out, scope, c.Name, args)
	if err == nil && failed {
		err = &Exit{Code: ExitOurs}
	}
	return err
}

// arguments checks that the text is an object, or can be read as one with certainty.
func (c *toolsRun) arguments(h *host) (string, error) {
	text := c.Args
	if text == "-" {
		raw, err := h.readStdin(maxToolArgs)
		if err != nil {
			return "", err
		}
		text = string(raw)
	}
	if _, err := tool.RepairArguments(text); err != nil {
		return "", Usage("arguments of %s: %w", c.Name, err)
	}
	return text, nil
}

// toolPlace opens a back-end and one box of it at the first need.
type toolPlace struct {
	h    *host
	name string
	spec backends.Spec

	mu   sync.Mutex
	back *build.ChosenBackend
	made backends.Sandbox
}

// open opens the back-end and says whether its boxes are isolated.
func (p *toolPlace) open(ctx context.Context) (isolated bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opened(ctx)
}

func (p *toolPlace) opened(ctx context.Context) (isolated bool, err error) {
	if p.back == nil {
		p.back, err = p.h.openBackend(ctx, p.name)
		if err != nil {
			return false, err
		}
	}
	return p.back.Traits().Isolated, nil
}

func (p *toolPlace) box(ctx context.Context) (backends.Sandbox, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.made != nil {
		return p.made, nil
	}
	if _, err := p.opened(ctx); err != nil {
		return nil, err
	}
	box, err := p.back.Open(ctx, p.spec)
	if err != nil {
		return nil, boxError(err)
	}
	p.made = box
	return box, nil
}

// close gives everything back, also after cancellation.
func (p *toolPlace) close(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
	defer cancel()
	var errs []error
	if p.made != nil {
		errs = append(errs, p.made.Close(ctx))
	}
	if p.back != nil {
		errs = append(errs, p.back.Close(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		p.h.Log.Warn("close the box", "err", err)
	}
}
