module hermes

go 1.26.0

require go.yaml.in/yaml/v3 v3.0.6

require (
	github.com/creack/pty v1.1.24
	golang.org/x/sys v0.49.0
)
