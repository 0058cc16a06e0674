// Package doctor runs rdmaperf doctor on emulated devices, each with one thing wrong.
package doctor

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

const bin = "../../.build/bin/"

type report struct {
	Worst    string
	Findings []struct{ Severity, Subject, Check, Text, Evidence, Remedy string }
	Devices  []struct{ Model, Function string }
}

func TestEmuDoctor(t *testing.T) {
	testutil.NeedEmu(t)
	small := `ulimit -l 64; exec "$@"`
	if os.Getuid() == 0 {
		small = `ulimit -l 64; exec setpriv --bounding-set=-ipc_lock "$@"`
	}
	for name, tc := range map[string]struct {
		emu             []string
		env             string
		shell           string
		code            int
		severity, check string
		subject, text   string
	}{
		"healthy": {code: 0, severity: "ok", check: "gid", subject: "mlx5_0/1", text: "is the best"},
		"port down": {emu: []string{"--device", "mlx5_0,state=down"}, code: 4, severity: "error", check: "port",
			subject: "host", text: "no port of any device is ACTIVE"},
		"wrong GID type": {emu: []string{"--device", "mlx5_0,gid=10.88.0.1/v1"}, code: 3, severity: "warning",
			check:   "gid",
			subject: "mlx5_0/1", text: "is RoCE v1"},
		"small memlock": {emu: []string{"--memlock", "65536"}, shell: small, code: 4, severity: "error",
			check: "memlock", subject: "host", text: "at most 64 KiB of memory"},
		"small memlock, not the emulator's": {shell: small, code: 0, severity: "ok", check: "gid", subject: "mlx5_0/1",
			text: "is the best"},
		"IPv6 off": {shell: `ip -6 addr flush dev emu0; exec "$@"`, code: 0, severity: "note", check: "gid",
			subject: "mlx5_0/1", text: "the kernel made the GID from the interface's MAC"},
		"stable privacy": {shell: `ip -6 addr flush dev emu0
			ip -6 addr add fe80::9f2c:1a3b:77aa:5d21/64 dev emu0 nodad; exec "$@"`, code: 0, severity: "note",
			check: "gid", subject: "mlx5_0/1", text: "the kernel made the GID"},
		"HDR100": {emu: []string{"--device", "mlx5_0,link=ib,width=2X,speed=HDR,model=cx6"}, code: 0, severity: "ok",
			check: "link", subject: "mlx5_0/1", text: "the rate is that of"},
		"NDR200": {emu: []string{"--device", "mlx5_0,link=ib,width=2X,speed=NDR,model=cx7"}, code: 0, severity: "ok",
			check: "link", subject: "mlx5_0/1", text: "the rate is that of"},
		"EDR, two lanes": {emu: []string{"--device", "mlx5_0,link=ib,width=2X,speed=EDR,model=cx6"}, code: 3,
			severity: "warning", check: "link", subject: "mlx5_0/1", text: "lanes missing"},
		"limited member": {emu: []string{"--device", "mlx5_0,link=ib,pkey=0x7fff"}, code: 3, severity: "warning",
			check: "pkey", subject: "mlx5_0/1", text: "limited member"},
		"no permission": {emu: []string{"--device", "mlx5_0", "--fault",
			"errno=EACCES:cmd=get_context,every=1,count=0"}, code: 4,
			severity: "error", check: "permission", subject: "mlx5_0", text: "may not open the device file"},
		"small MTU": {emu: []string{"--device", "mlx5_0,mtu=2048"}, code: 0, severity: "note", check: "mtu",
			subject: "mlx5_0/1", text: "active MTU 2048, because the MTU of emu0 is 2144"},
		"library missing": {env: "PUREVERBS_LIBRARY_PATH=/nonexistent PUREVERBS_CONTROL=library", code: 4,
			severity: "error", check: "library", subject: "host", text: "libibverbs"},
		"library not needed": {env: "PUREVERBS_LIBRARY_PATH=/nonexistent", code: 0,
			severity: "ok", check: "library", subject: "host", text: "libibverbs.so.1 is not used: native"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append(tc.emu, "--")
			if tc.shell != "" {
				args = append(args, "sh", "-c", tc.shell, "sh")
			}
			c := exec.Command(bin+"emu", append(args, bin+"rdmaperf", "doctor", "--json")...)
			if c.Env = os.Environ(); tc.env != "" {
				c.Env = append(c.Env, strings.Fields(tc.env)...)
			}
			var out, diag bytes.Buffer
			c.Stdout, c.Stderr = &out, &diag
			err := c.Run()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) || c.ProcessState.ExitCode() != tc.code {
				t.Errorf("%v, want exit code %d", err, tc.code)
			}
			var r report
			if err := json.Unmarshal(out.Bytes(), &r); err != nil {
				t.Fatalf("%v\n%s\n%s", err, &out, &diag)
			}
			for _, f := range r.Findings {
				if f.Severity == "ok" && tc.severity == "error" && f.Check == tc.check && f.Subject == tc.subject {
					t.Errorf("%q in addition to an error of the same check", f.Text)
				}
				if f.Severity == tc.severity && f.Check == tc.check && f.Subject == tc.subject &&
					strings.Contains(f.Text, tc.text) && f.Evidence != "" &&
					(f.Remedy != "" || f.Severity == "ok" || f.Severity == "note") {
					return
				}
			}
			t.Errorf("no %s of %s with %q:\n%s\n%s", tc.severity, tc.check, tc.text, &out, &diag)
		})
	}
	t.Run("two ends", func(t *testing.T) {
		t.Parallel()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close() // the port is free, most likely
		_, port, _ := net.SplitHostPort(l.Addr().String())
		srv := exec.Command(bin+"emu", "--net=host", "--device", "mlx5_0,mtu=4096", "--", bin+"rdmaperf", "doctor",
			"--serve",
			"--bind", "127.0.0.1", "-p", port)
		stderr, err := srv.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := srv.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { srv.Process.Signal(os.Interrupt); srv.Wait() }()
		line, err := bufio.NewReader(stderr).ReadString('\n')
		if !strings.Contains(line, "is listening on TCP port "+port) {
			t.Fatalf("%q, %v", line, err)
		}
		out, err := exec.Command(bin+"emu", "--net=host", "--device", "mlx5_0", "--", bin+"rdmaperf", "doctor", "-p",
			port,
			"127.0.0.1").CombinedOutput()
		if !strings.Contains(string(out), "the active MTUs differ") ||
			!strings.Contains(string(out), "read: 1024 of mlx5_0/1 here, 4096 of") {
			t.Errorf("%v\n%s", err, out)
		}
	})
}
