package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// listens is the message of perf when it is ready as a server.
var listens = regexp.MustCompile(`waiting for a client on TCP port ([0-9]{1,5})\n`)

// diagnosis keeps the beginning of a test's stderr, and searches it for the port.
type diagnosis struct {
	text  bytes.Buffer
	found func(port int) error
}

func (d *diagnosis) Write(b []byte) (int, error) {
	const most = 8 << 10
	d.text.Write(b[:min(len(b), most-min(d.text.Len(), most))])
	if m := listens.FindSubmatch(d.text.Bytes()); m != nil && d.found != nil {
		port, _ := strconv.Atoi(string(m[1]))
		found := d.found
		d.found = nil
		if err := found(port); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// told returns the messages of a failed test, in one line.
func (d *diagnosis) told(err error) string {
	said := strings.TrimSpace(listens.ReplaceAllString(d.text.String(), ""))
	said = strings.Join(strings.Fields(strings.ReplaceAll(said, "perf: ", "")), " ")
	if said == "" {
		said = err.Error()
	}
	return said
}

// output keeps what a test prints.
type output struct{ bytes.Buffer }

func (o *output) Write(b []byte) (int, error) {
	if o.Len()+len(b) > maxReply-1024 {
		return 0, errors.New("the result is too long")
	}
	return o.Buffer.Write(b)
}

// run runs a test in its own process, which ends with ctx and with this one.
func (s *server) run(ctx context.Context, r request, listening func(port int) error) (json.RawMessage, error) {
	runtime.LockOSThread() // the process gets a signal when the thread that started it ends
	defer runtime.UnlockOSThread()
	if !r.Test.Infinite { // that one ends when its client leaves
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.Test.Duration*2+mostDuration)
		defer cancel()
	}
	args := slices.Concat(s.Program[1:], arguments(r.Test))
	diag := &diagnosis{}
	if r.Op == opServer {
		args = append(args, "-p", "0")
		diag.found = listening
	} else {
		args = append(args, "-p", strconv.Itoa(r.Port), "--", r.Host)
	}
	var out output
	cmd := exec.CommandContext(ctx, s.Program[0], args...)
	cmd.Stdout, cmd.Stderr = &out, diag
	cmd.WaitDelay = time.Second
	dieWithParent(cmd)
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s", diag.told(err))
	}
	return json.RawMessage(bytes.TrimSpace(out.Bytes())), nil
}
