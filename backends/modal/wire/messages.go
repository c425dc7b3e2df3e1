package wire

// The services and their calls, as grpc names them.
const (
	Service = "modal.client.ModalClient"
	Router  = "modal.task_command_router.TaskCommandRouter"
)

// Calls of Service.
const (
	AppGetOrCreate             = "AppGetOrCreate"
	AuthTokenGet               = "AuthTokenGet"
	EnvironmentGetOrCreate     = "EnvironmentGetOrCreate"
	ImageGetOrCreate           = "ImageGetOrCreate"
	ImageJoinStreaming         = "ImageJoinStreaming" // answers with a stream
	SandboxCreate              = "SandboxCreate"
	SandboxGetFromName         = "SandboxGetFromName"
	SandboxGetTaskID           = "SandboxGetTaskId"
	SandboxList                = "SandboxList"
	SandboxSnapshotFs          = "SandboxSnapshotFs"
	SandboxTerminate           = "SandboxTerminate"
	SandboxWait                = "SandboxWait"
	SecretGetOrCreate          = "SecretGetOrCreate"
	TaskGetCommandRouterAccess = "TaskGetCommandRouterAccess"
)

// Calls of Router.
const (
	TaskExecStart      = "TaskExecStart"
	TaskExecStdinWrite = "TaskExecStdinWrite"
	TaskExecStdioRead  = "TaskExecStdioRead" // answers with a stream
	TaskExecWait       = "TaskExecWait"
)

// Names of metadata.
const (
	MetaClientType    = "x-modal-client-type"
	MetaClientVersion = "x-modal-client-version"
	MetaLibrary       = "x-modal-libmodal-version"
	MetaTokenID       = "x-modal-token-id"
	MetaTokenSecret   = "x-modal-token-secret"
	MetaAuthToken     = "x-modal-auth-token"
	MetaIdempotency   = "x-idempotency-key"
	MetaRetryAttempt  = "x-retry-attempt"
	MetaRetryDelay    = "x-retry-delay"
	MetaAuthorization = "authorization"
)

// How an object is looked up or made.
const (
	LookUp          = 0
	CreateIfMissing = 1
	Ephemeral       = 5
)

// How a sandbox, a build or a snapshot ended.
const (
	StatusRunning     = 0
	StatusSuccess     = 1
	StatusFailure     = 2
	StatusTerminated  = 3
	StatusTimeout     = 4
	StatusInitFailure = 5
	StatusInternal    = 6
	StatusIdle        = 7
	StatusEvicted     = 8
)

// What a sandbox may reach.
const (
	NetworkOpen      = 1
	NetworkBlocked   = 2
	NetworkAllowList = 3
)

// Where a registry's credentials come from.
const (
	RegistryPublic = 3
	RegistryStatic = 4
)

// Streams of a command.
const (
	Pipe   = 1 // of stdout_config and stderr_config
	Stdout = 0 // of file_descriptor
	Stderr = 1
)

// Empty is a message without fields that we look at.
type Empty struct{}

// AppRequest asks for an app.
type AppRequest struct {
	Name        string `pb:"1"`
	Environment string `pb:"2"`
	Creation    int32  `pb:"3"`
}

// App is an app.
type App struct {
	ID string `pb:"1"`
}

// AuthToken is the token of most calls, a JWT.
type AuthToken struct {
	Token string `pb:"1"`
}

// EnvironmentRequest looks an environment up.
type EnvironmentRequest struct {
	Name     string `pb:"1"`
	Creation int32  `pb:"2"`
}

// Environment is an environment of a workspace.
type Environment struct {
	ID       string               `pb:"1"`
	Metadata *EnvironmentMetadata `pb:"2"`
}

// EnvironmentMetadata tells about an environment.
type EnvironmentMetadata struct {
	Name     string               `pb:"1"`
	Settings *EnvironmentSettings `pb:"2"`
}

// EnvironmentSettings are those of an environment.
type EnvironmentSettings struct {
	Builder string `pb:"1"` // version of the image builder
}

// ImageRequest asks for an image to be built.
type ImageRequest struct {
	Image   *Image `pb:"2"`
	AppID   string `pb:"4"`
	Builder string `pb:"9"`
}

// Image is how an image is built.
type Image struct {
	Base     []*BaseImage    `pb:"5"`
	Commands []string        `pb:"6"`
	Secrets  []string        `pb:"12"`
	GPU      *GPU            `pb:"16"`
	Registry *RegistryConfig `pb:"17"`
}

// BaseImage gives an image a name in the commands of another.
type BaseImage struct {
	ID  string `pb:"1"`
	Tag string `pb:"2"`
}

// RegistryConfig says how the image of FROM is fetched.
type RegistryConfig struct {
	Auth   int32  `pb:"1"`
	Secret string `pb:"2"`
}

// ImageAnswer has a Result when the image was built already.
type ImageAnswer struct {
	ID     string  `pb:"1"`
	Result *Result `pb:"2"`
}

// ImageJoin waits for a build.
type ImageJoin struct {
	ID        string  `pb:"1"`
	Timeout   float32 `pb:"2"` // seconds
	LastEntry string  `pb:"3"`
}

// ImageProgress is what a build says.
type ImageProgress struct {
	Result *Result    `pb:"1"`
	Logs   []*TaskLog `pb:"2"`
	Entry  string     `pb:"3"`
	EOF    bool       `pb:"4"`
}

// TaskLog is a piece of a log.
type TaskLog struct {
	Data string `pb:"1"`
}

// Result is how something ended.
type Result struct {
	Status    int32  `pb:"1"`
	Exception string `pb:"2"`
	ExitCode  int32  `pb:"3"`
}

// SecretRequest makes a secret.
type SecretRequest struct {
	Name        string            `pb:"1"`
	Environment string            `pb:"3"`
	Creation    int32             `pb:"4"`
	Values      map[string]string `pb:"5"`
}

// Secret is a secret.
type Secret struct {
	ID string `pb:"1"`
}

// CreateRequest asks for a sandbox.
type CreateRequest struct {
	AppID      string   `pb:"1"`
	Definition *Sandbox `pb:"2"`
	Tags       []*Tag   `pb:"4"`
}

// Sandbox describes a sandbox.
type Sandbox struct {
	Entrypoint []string       `pb:"1"`
	ImageID    string         `pb:"3"`
	Secrets    []string       `pb:"4"`
	Resources  *Resources     `pb:"5"`
	Timeout    uint32         `pb:"7"` // seconds
	Workdir    *string        `pb:"8"`
	Network    *NetworkAccess `pb:"22"`
	Name       *string        `pb:"30"`
	Idle       *uint32        `pb:"33"` // seconds
}

// Resources are what a sandbox gets. Those without Max are what it is sure of.
type Resources struct {
	MemoryMB    uint32 `pb:"2"`
	MilliCPU    uint32 `pb:"3"`
	GPU         *GPU   `pb:"4"`
	MemoryMBMax uint32 `pb:"5"`
	DiskMB      uint32 `pb:"6"`
	MilliCPUMax uint32 `pb:"7"`
}

// GPU is a kind of accelerator.
type GPU struct {
	Count uint32 `pb:"2"`
	Type  string `pb:"4"`
}

// NetworkAccess is what a sandbox may reach.
type NetworkAccess struct {
	Type    int32    `pb:"1"`
	CIDRs   []string `pb:"2"`
	Domains []string `pb:"3"`
}

// Tag is a label.
type Tag struct {
	Name  string `pb:"1"`
	Value string `pb:"2"`
}

// SandboxID names a sandbox: the answer to SandboxCreate and SandboxGetFromName, and the
// question of SandboxTerminate.
type SandboxID struct {
	ID string `pb:"1"`
}

// NameRequest looks for a running sandbox by its name.
type NameRequest struct {
	Name        string `pb:"1"`
	Environment string `pb:"2"`
	App         string `pb:"3"`
}

// WaitRequest asks about a sandbox: SandboxWait, SandboxGetTaskId, SandboxSnapshotFs.
type WaitRequest struct {
	ID      string   `pb:"1"`
	Timeout *float32 `pb:"2"` // seconds
}

// WaitAnswer has the result of a sandbox that has ended.
type WaitAnswer struct {
	Result *Result `pb:"1"`
}

// TaskAnswer has the task of a sandbox, or its end.
type TaskAnswer struct {
	TaskID *string `pb:"1"`
	Result *Result `pb:"2"`
}

// SnapshotAnswer has the image of a snapshot.
type SnapshotAnswer struct {
	ImageID string  `pb:"1"`
	Result  *Result `pb:"2"`
}

// ListRequest asks for a page of sandboxes, the newest first.
type ListRequest struct {
	AppID       string  `pb:"1"`
	Before      float64 `pb:"2"` // Unix seconds; 0: the newest
	Environment string  `pb:"3"`
	Finished    bool    `pb:"4"`
	Tags        []*Tag  `pb:"5"`
}

// ListAnswer is a page of sandboxes.
type ListAnswer struct {
	Sandboxes []*Listed `pb:"1"`
}

// Listed is a sandbox as the list tells it.
type Listed struct {
	ID      string  `pb:"1"`
	Created float64 `pb:"3"` // Unix seconds
	AppID   string  `pb:"5"`
	Tags    []*Tag  `pb:"6"`
	Name    string  `pb:"7"`
	Timeout uint32  `pb:"11"` // seconds
}

// TaskRequest asks for the way to a task.
type TaskRequest struct {
	TaskID string `pb:"1"`
}

// Access is the way to the router of a task.
type Access struct {
	JWT string `pb:"1"`
	URL string `pb:"2"`
}

// RetryPolicy is in the details of an error: the service says when to come again.
type RetryPolicy struct {
	After float32 `pb:"1"` // seconds
}

// RetryPolicyType is the type of RetryPolicy in the details of an error.
const RetryPolicyType = "modal.client.RPCRetryPolicy"

// ExecStart starts a command. The same ExecID again is the same command.
type ExecStart struct {
	TaskID  string            `pb:"1"`
	ExecID  string            `pb:"2"`
	Args    []string          `pb:"3"`
	Stdout  int32             `pb:"4"`
	Stderr  int32             `pb:"5"`
	Timeout *uint32           `pb:"6"` // seconds
	Workdir *string           `pb:"7"`
	Env     map[string]string `pb:"12"`
}

// StdinWrite writes to a command's input, from an offset on.
type StdinWrite struct {
	TaskID string `pb:"1"`
	ExecID string `pb:"2"`
	Offset uint64 `pb:"3"`
	Data   []byte `pb:"4"`
	EOF    bool   `pb:"5"`
}

// StdioRead reads a command's output from an offset on.
type StdioRead struct {
	TaskID     string `pb:"1"`
	ExecID     string `pb:"2"`
	Offset     uint64 `pb:"3"`
	Descriptor int32  `pb:"4"`
}

// StdioChunk is a piece of output.
type StdioChunk struct {
	Data []byte `pb:"1"`
}

// ExecWait waits for a command.
type ExecWait struct {
	TaskID string `pb:"1"`
	ExecID string `pb:"2"`
}

// ExecEnd is how a command ended: one of both.
type ExecEnd struct {
	Code   *int32 `pb:"1"`
	Signal *int32 `pb:"2"`
}
