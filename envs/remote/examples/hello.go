// Command hello is an environment: the model must say hello.
package main

import "bufio"
import "fmt"
import "os"
import "strings"

func main() {
	in := bufio.NewScanner(os.Stdin)
	for in.Buffer(nil, 16<<20); in.Scan(); { // a request begins {"jsonrpc":"2.0","id":7,"method":"score",
		f := strings.SplitN(in.Text(), `"`, 11)
		results := map[string]string{"initialize": `{"protocol":1,"name":"hello","toolsets":[],"abilities":["oracle"]}`, "rows": `{"rows":[{"id":"1","prompt":"Say hello."}]}`,
			"score": fmt.Sprint(strings.Count(in.Text(), `"answer":"hello"`)), "oracle": `{"messages":[{"role":"assistant","content":"hello"}]}`}
		fmt.Printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n", strings.Trim(f[6], ":,"), results[f[9]])
	}
}
