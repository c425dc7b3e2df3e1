module hermes

go 1.26

require (
	github.com/alecthomas/kong v1.17.0
	go.yaml.in/yaml/v3 v3.0.6
	golang.org/x/term v0.44.0
)

require golang.org/x/sys v0.46.0 // indirect
