module hermes

go 1.26

require go.yaml.in/yaml/v3 v3.0.6

require github.com/sashabaranov/go-openai v1.43.0
