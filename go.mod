module hermes

go 1.26.0

require (
	github.com/klauspost/compress v1.20.3
	go.yaml.in/yaml/v3 v3.0.6
)
