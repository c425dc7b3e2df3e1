package docker

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/registry"
)

// hubKey is how configuration files call the registry of names without a host.
const hubKey = "https://index.docker.io/v1/"

// clientConfig is the part of Docker's config.json that says who we are.
type clientConfig struct {
	Auths       map[string]registry.AuthConfig `json:"auths"`
	Store       string                         `json:"credsStore"`
	CredHelpers map[string]string              `json:"credHelpers"`
}

// credentials finds what the folder's config.json has for an image's registry, encoded
// for the engine; "" when there is nothing.
func credentials(ctx context.Context, folder, image string) (string, error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", fmt.Errorf("not the name of an image: %w", err)
	}
	if folder == "" {
		return "", nil
	}
	file := filepath.Join(folder, "config.json")
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("credentials of registries: %w", err)
	}
	var c clientConfig
	if err := json.Unmarshal(raw, &c); err != nil {
		return "", fmt.Errorf("credentials of registries: %s: %w", file, err)
	}
	key := reference.Domain(named)
	if key == "docker.io" {
		key = hubKey
	}
	a, err := c.find(ctx, key)
	if err != nil {
		return "", fmt.Errorf("credentials of registry %s: %w", key, err)
	}
	if a == (registry.AuthConfig{}) {
		return "", nil
	}
	return registry.EncodeAuthConfig(a)
}

// find looks up one registry: its helper, the store of all, the file itself.
func (c clientConfig) find(ctx context.Context, key string) (registry.AuthConfig, error) {
	if helper := c.CredHelpers[key]; helper != "" {
		return askHelper(ctx, helper, key)
	}
	if c.Store != "" {
		if a, err := askHelper(ctx, c.Store, key); err != nil || a != (registry.AuthConfig{}) {
			return a, err
		}
	}
	for name, a := range c.Auths {
		if name != key && host(name) != key {
			continue
		}
		if a.Auth != "" && a.Username == "" {
			plain, err := base64.StdEncoding.DecodeString(a.Auth)
			user, password, ok := strings.Cut(string(plain), ":")
			if err != nil || !ok {
				return a, errors.New("auth is not the base64 of USER:PASSWORD")
			}
			a.Username = user
			a.Password = strings.TrimRight(password, "\x00")
			a.Auth = ""
		}
		a.ServerAddress = key
		return a, nil
	}
	return registry.AuthConfig{}, nil
}

// host is the host of an entry that may be written as a URL.
func host(name string) string {
	_, rest, ok := strings.Cut(name, "://")
	if !ok {
		rest = name
	}
	rest, _, _ = strings.Cut(rest, "/")
	return rest
}

var helperName = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// askHelper runs a credential helper as Docker's protocol of helpers says: the registry
// on stdin, JSON on stdout.
func askHelper(ctx context.Context, helper, key string) (a registry.AuthConfig, err error) {
	if !helperName.MatchString(helper) {
		return a, fmt.Errorf("helper %q: not a name", helper)
	}
	cmd := exec.CommandContext(ctx, "docker-credential-"+helper, "get")
	cmd.Stdin = strings.NewReader(key)
	out, err := cmd.Output()
	if bytes.Contains(out, []byte("credentials not found")) {
		return a, nil
	}
	if err != nil {
		return a, fmt.Errorf("%s: %w", cmd.Path, err)
	}
	var got struct{ Username, Secret string }
	if err := json.Unmarshal(out, &got); err != nil {
		return a, fmt.Errorf("%s: its answer is not JSON", cmd.Path)
	}
	a = registry.AuthConfig{Username: got.Username, Password: got.Secret, ServerAddress: key}
	if got.Username == "<token>" {
		a = registry.AuthConfig{IdentityToken: got.Secret, ServerAddress: key}
	}
	return a, nil
}
