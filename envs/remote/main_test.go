package remote_test

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// host is set in the process of TestHost.
var host = flag.String("host", "", "address that the program of TestHost connects to")

// TestMain turns the test binary into a misbehaving program when it is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "misbehave" {
		misbehave(os.Args[2], os.Args[3:])
		return
	}
	os.Exit(m.Run())
}

// program is a command that misbehaves in one way when it is asked to score.
func program(t testing.TB, how string, more ...string) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{self, "misbehave", how}, more...)
}

func misbehave(how string, more []string) {
	if len(more) > 0 && strings.HasPrefix(more[0], "tcp:") { // the connection ends when this process does
		if _, err := net.Dial("tcp", strings.TrimPrefix(more[0], "tcp:")); err != nil {
			panic(err)
		}
	}
	if how == "variables" {
		if err := os.WriteFile(more[0], []byte(strings.Join(os.Environ(), "\n")), 0o600); err != nil {
			panic(err)
		}
	}
	if how == "late greeting" {
		select {}
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		var r struct {
			ID     int    `json:"id"`
			Method string `json:"method"`
		}
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			panic(err)
		}
		say := func(result string) { fmt.Printf(`{"jsonrpc":"2.0","id":%d,"result":%s}`+"\n", r.ID, result) }
		switch r.Method {
		case "initialize":
			switch how {
			case "old":
				say(`{"protocol":0,"name":"old"}`)
			case "nameless":
				say(`{"protocol":1}`)
			case "abilities":
				say(`{"protocol":1,"name":"x","abilities":["fly"]}`)
			case "bad start":
				fmt.Fprintln(os.Stderr, "no module named numpy")
				os.Exit(3)
			case "one by one":
				say(`{"protocol":1,"name":"slow","toolsets":[],"concurrency":30}`)
			case "crashing tool":
				say(`{"protocol":1,"name":"bad","toolsets":[],"abilities":["tools"]}`)
			default:
				say(`{"protocol":1,"name":"bad","toolsets":[]}`)
			}
		case "rows":
			say(`{"rows":[{"id":"1","prompt":"p"},{"id":"2","prompt":"p"}]}`)
		case "tools":
			say(`{"tools":[{"name":"dial","description":"d"}]}`)
		case "call":
			os.Exit(9)
		case "score":
			switch {
			case how == "twice for x" && strings.Contains(in.Text(), `"answer":"x"`):
				fmt.Printf(`{"jsonrpc":"2.0","id":%d,"result":1}`+"\n"+`{"jsonrpc":"2.0","id":%d,"result":0}`+"\n", r.ID, r.ID)
			case how == "the last one again" && r.ID == 5:
				if f, err := os.OpenFile(more[0], os.O_CREATE|os.O_EXCL, 0o600); err == nil {
					f.Close()
					fmt.Printf(`{"jsonrpc":"2.0","id":%d,"result":0}`+"\n", r.ID-1)
				}
				say("1")
			default:
				scoreBadly(how, more, r.ID, say)
			}
		}
	}
	if how == "deaf" || how == "hang" {
		select {} // goes on although its input is closed
	}
}

func scoreBadly(how string, more []string, id int, say func(string)) {
	switch how {
	case "crash":
		fmt.Fprintln(os.Stderr, "segmentation fault, so to say")
		os.Exit(139)
	case "crash once":
		if f, err := os.OpenFile(more[0], os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			f.Close()
			os.Exit(1)
		}
		say("1")
	case "one by one":
		takes, err := time.ParseDuration(more[0])
		if err != nil {
			panic(err)
		}
		<-time.After(takes)
		say("1")
	case "hang":
		select {}
	case "garbage":
		fmt.Println("Epoch 1/10: loss 0.3")
		say("1")
	case "unasked":
		fmt.Printf(`{"jsonrpc":"2.0","id":%d,"result":1}`+"\n", id+100)
	case "nan":
		say(`{"reward":NaN}`)
	case "infinite":
		say("1e999")
	case "wordy":
		say(`{"reward":1,"detail":"` + strings.Repeat("x", 1<<17) + `"}`)
	case "raise":
		fmt.Printf(`{"jsonrpc":"2.0","id":%d,"error":{"code":-32000,"message":"KeyError: 'x'","data":{"trace":"line 7"}}}`+"\n", id)
	case "none":
		say("null")
	case "text":
		say(`"good"`)
	case "unscored":
		fmt.Printf(`{"jsonrpc":"2.0","id":%d,"error":{"code":-32001,"message":"nothing to judge"}}`+"\n", id)
	case "flood":
		for range 5000 {
			fmt.Fprintln(os.Stderr, strings.Repeat("debug ", 100))
		}
		say("1")
	case "asks for boxes":
		fmt.Printf(`{"jsonrpc":"2.0","id":"a","method":"box/exec","params":{"for":%d,"shell":"true"}}`+"\n", id)
		fmt.Printf(`{"jsonrpc":"2.0","id":"b","method":"box/fly","params":{"for":%d}}`+"\n", id)
		in := bufio.NewReader(os.Stdin)
		a, _ := in.ReadString('\n')
		b, _ := in.ReadString('\n')
		say(fmt.Sprintf(`{"reward":0,"detail":%q}`, a+b))
	default:
		say("1")
	}
}
