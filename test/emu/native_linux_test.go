//go:build linux && amd64 && !race

package emu

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// Programs that are built with the tag pureverbs_native are one static file each.

// staticPrefix begins the name of such a program in a row.
const staticPrefix = "static_"

// staticBin is the folder with these programs, each in a folder of its own.
var staticBin string

// buildStatic builds them once.
func buildStatic(t *testing.T) {
	t.Helper()
	staticBin = filepath.Join(root, ".build/native")
	for _, p := range []string{"cmd/perf/rdmaperf", "examples/kv", "examples/mckey", "examples/pingpong", "examples/rping",
		"examples/ucmatose", "examples/udaddy"} {
		dir := filepath.Join(staticBin, filepath.Base(p))
		build := exec.Command("go", "build", "-trimpath", "-tags=pureverbs_native", "-o", dir+"/", "./"+p)
		build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, out)
		}
		files, err := os.ReadDir(dir)
		if err != nil || len(files) != 1 {
			t.Fatalf("%s has %v, want one program: %v", dir, files, err)
		}
	}
}

// staticWays are the ways to run them: as nobody, and in a root folder that holds nothing but the file.
var staticWays = []way{{name: "nobody", nobody: true}, {name: "empty-root", empty: true}}

// static returns the command that starts a static program.
func (w way) static(program string, args ...string) []string {
	dir := filepath.Join(staticBin, program)
	if w.empty {
		return append([]string{"chroot", dir, "/" + program}, args...)
	}
	return append([]string{filepath.Join(dir, program)}, args...)
}

// skip skips the way in which this user cannot run programs.
func (w way) skip(t *testing.T) {
	t.Helper()
	if w.empty && os.Getuid() != 0 {
		t.Skip("only root enters a root folder")
	}
}

// native lists rows of static programs, with themselves and with stock ones at the other end.
var native = []row{
	{command: "static_rdmaperf:write:bw/ib_write_bw -n 100 -s 65536"},
	{command: "ib_write_bw/static_rdmaperf:write:bw -n 100 -s 4096 -q 4"},
	{command: "static_rdmaperf:write:lat/ib_write_lat -c UC -n 200 -s 64"},
	{command: "ib_read_bw/static_rdmaperf:read:bw -n 100 -s 4096 -q 4 -e"},
	{command: "static_rdmaperf:read:lat/ib_read_lat -n 200 -s 64"},
	{command: "ib_send_bw/static_rdmaperf:send:bw -n 100 -s 4096 -e"},
	{command: "static_rdmaperf:send:bw/ib_send_bw -c UC -n 100 -s 4096 -q 4 -b"},
	{command: "ib_send_lat/static_rdmaperf:send:lat -c UD -n 200 -s 512"},
	{command: "static_rdmaperf:send:lat/ib_send_lat -c UD -n 200 -s 512 -e"},
	{command: "ib_atomic_bw/static_rdmaperf:atomic:bw -n 200 -q 4"},
	{command: "static_rdmaperf:atomic:lat/ib_atomic_lat -n 100 -A CMP_AND_SWAP -e"},
	{command: "static_rdmaperf:write:bw/ib_write_bw -R -n 100 -s 65536 -b", host: loopback[2]},
	{command: "ib_send_lat/static_rdmaperf:send:lat -R -n 200 -s 64", host: loopback[2]},
	{command: "ib_send_bw/static_rdmaperf:send:bw -R -c UD -n 100 -s 1000", host: loopback[2]},
	{command: "static_rdmaperf:read:bw -R -n 100 -s 65536 -q 4 -e", host: loopback[3]},
	{command: "static_rdmaperf:send:bw -n 100 -s 65536 --verify"},
	{command: "rdmaperf:write:bw/static_rdmaperf:write:bw -n 100 -s 65536 --verify -q 4"},
	{command: "static_rping/rping -C 5 -v -V -S 1000", host: loopback[2]},
	{command: "rping/static_rping -C 5 -v -V -S 20000", host: loopback[2]},
	{command: "static_rping/static_rping -C 5 -v -V -S 100", host: loopback[3]},
	{command: "static_ucmatose/ucmatose -c 3 -C 5 -S 1000", host: loopback[2]},
	{command: "ucmatose/static_ucmatose -c 3 -C 5 -S 1000", host: loopback[2]},
	{command: "static_udaddy/udaddy -c 2 -C 5 -S 500", host: loopback[2]},
	{command: "udaddy/static_udaddy -c 2 -C 5 -S 500", host: loopback[2]},
	{command: "static_mckey/mckey -m 239.1.2.5 -C 5 -S 500", host: loopback[2]},
	{command: "mckey/static_mckey -m 239.1.2.5 -C 5 -S 500", host: loopback[2]},
	{command: "ibv_rc_pingpong/static_rc_pingpong -n 100 -s 4096 -g 3"},
	{command: "static_rc_pingpong/ibv_rc_pingpong -n 100 -s 4096 -g 3 -e"},
	{command: "ibv_uc_pingpong/static_uc_pingpong -n 100 -s 1000 -g 3 -e"},
	{command: "static_uc_pingpong/ibv_uc_pingpong -n 100 -s 1000 -g 3"},
	{command: "ibv_ud_pingpong/static_ud_pingpong -n 100 -s 1000 -g 3"},
	{command: "static_ud_pingpong/ibv_ud_pingpong -n 100 -s 1000 -g 3 -e"},
	{command: "ibv_srq_pingpong/static_srq_pingpong -n 100 -s 4096 -g 3 -q 4"},
	{command: "static_srq_pingpong/ibv_srq_pingpong -n 100 -s 4096 -g 3 -q 4 -e"},
}

// TestEmuNative_Programs runs each row in one way, and in a full run in both.
func TestEmuNative_Programs(t *testing.T) {
	testutil.NeedEmu(t)
	buildStatic(t)
	for i, r := range native {
		for k, w := range staticWays {
			if k != i%len(staticWays) && !full {
				continue
			}
			t.Run(w.name+"/"+r.command+" "+r.host, func(t *testing.T) {
				w.skip(t)
				r.run(t, w)
			})
		}
	}
}

// onABIs lists rows for kernels that lack forms of the commands. What gVisor passes has no completion channel, SRQ and
// rdma_cm.
var onABIs = []struct{ abis, command string }{
	{"write ioctl sandbox", "static_rdmaperf:write:bw -n 100 -s 65536 -q 4"},
	{"write ioctl sandbox", "static_rdmaperf:write:bw/ib_write_bw -n 100 -s 4096"},
	{"write ioctl sandbox", "ib_read_lat/static_rdmaperf:read:lat -n 200 -s 64"},
	{"write ioctl sandbox", "static_rdmaperf:send:bw -c UD -n 100 -s 512"},
	{"write ioctl sandbox", "static_rdmaperf:atomic:bw -n 100"},
	{"write ioctl", "static_rdmaperf:send:bw -n 100 -s 4096 -e"},
	{"write ioctl", "static_rdmaperf:send:lat -R -n 100 -s 64"},
	{"write ioctl", "static_rping/rping -C 5 -v -V -S 1000"},
}

// TestEmuNative_ABI runs static programs on a kernel without the ioctl, on one that refuses a write to the device's
// file, which strict mode reports, and with what gVisor passes. A row is for one of them, in a full run for all.
func TestEmuNative_ABI(t *testing.T) {
	testutil.NeedEmu(t)
	buildStatic(t)
	for i, r := range onABIs {
		abis := strings.Fields(r.abis)
		for k, abi := range abis {
			if k != i%len(abis) && !full {
				continue
			}
			t.Run(abi+"/"+r.command, func(t *testing.T) {
				w := staticWays[i%len(staticWays)]
				w.skip(t)
				row{command: r.command, host: loopback[2], emu: []string{"--device", "mlx5_0,abi=" + abi}}.run(t, w)
			})
		}
	}
	t.Run("ioctl/written", func(t *testing.T) { // query_device, as a library writes it
		const command = `exec 3<>/dev/infiniband/uverbs0; printf '\1\0\0\0\4\0\054\0\0\0\0\0\0\0\0\0' >&3`
		out, err := here.emulate(t, []string{"--device", "mlx5_0,abi=ioctl"}, "bash", "-c", command+" 2>/dev/null; exit 0")
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 99 || !strings.Contains(out, "uverbs-write") {
			t.Errorf("%v; want exit status 99 and the rule\n%s", err, out)
		}
	})
	t.Run("sandbox/events", func(t *testing.T) {
		w := staticWays[0]
		out, err := w.emulate(t, []string{"--device", "mlx5_0,abi=sandbox"}, w.static("rdmaperf", "write", "bw", "-e")...)
		if err == nil || !strings.Contains(out, "create comp channel mlx5_0: ") || strings.Contains(out, "strict: ") {
			t.Errorf("%v; want an error that names the completion channel\n%s", err, tail(out))
		}
	})
}

// kv serves, with a client for one key, another for many keys, and the program of the library in the other role.
const kvScript = await + `SERVER -b 10.88.0.1 -p PORT & s=$!
await 'CLIENT -s 10.88.0.1 -p PORT -k colour -v green 2>/dev/null'
echo "colour: $(CLIENT -s 10.88.0.1 -p PORT -k colour)"
CLIENT -s 10.88.0.1 -p PORT -c 4 -C 50 || exit 1
kill -INT $s
wait $s`

// TestEmuNative_KV runs the key-value store, with the program that loads the library in the other role.
func TestEmuNative_KV(t *testing.T) {
	testutil.NeedEmu(t)
	buildStatic(t)
	library := filepath.Join(root, ".build/bin/kv")
	for _, w := range staticWays {
		static := strings.Join(w.static("kv"), " ")
		for name, ends := range map[string][2]string{"itself": {static, static}, "server": {static, library},
			"client": {library, static}} {
			t.Run(w.name+"/"+name, func(t *testing.T) {
				w.skip(t)
				script := strings.NewReplacer("SERVER", ends[0], "CLIENT", ends[1],
					"PORT", strconv.Itoa(21000+int(port.Add(1)))).Replace(kvScript)
				out, err := w.emulate(t, nil, "bash", "-c", script)
				if err != nil || !strings.Contains(out, "colour: green\n") {
					t.Errorf("%v\n%s", err, tail(out))
				}
			})
		}
	}
}

// TestEmuNative_Doctor runs rdmaperf doctor --native: a message of a port to itself, and a comparison with the library where
// the program can load one.
func TestEmuNative_Doctor(t *testing.T) {
	testutil.NeedEmu(t)
	buildStatic(t)
	library := []string{filepath.Join(root, ".build/bin/rdmaperf")}
	static := way{}.static("rdmaperf")
	const (
		arrived  = "a message of the port to itself arrived"
		compared = "attributes are the library's"
		alone    = "there is no library to compare the attributes with"
	)
	for name, tt := range map[string]struct {
		w     way
		perf  []string
		flags []string
		want  []string
		code  int
	}{
		"library": {perf: library, want: []string{arrived, compared}},
		"two ports": {perf: library, flags: []string{"--device", "mlx5_0,ports=2"},
			want: []string{"mlx5_0/1   native     " + arrived, "mlx5_0/2   native     " + arrived, compared}},
		"InfiniBand": {perf: library, flags: []string{"--device", "mlx5_0,link=ib"}, want: []string{arrived, compared}},
		"no library": {w: way{env: "PUREVERBS_LIBRARY_PATH=/nonexistent"}, perf: library,
			want: []string{arrived, alone, "libibverbs.so.1"}},
		"static, nobody": {w: staticWays[0], perf: static, want: []string{arrived, alone, "pureverbs_native"}},
		"static, empty root": {w: staticWays[1], perf: staticWays[1].static("rdmaperf"),
			want: []string{arrived, alone, "pureverbs_native"}},
		"lost": {perf: library, flags: []string{"--fault", "retry-exceeded:every=1,count=0"}, code: 4,
			want: []string{"a message of the port to itself failed without libraries", compared}},
		"shut": {perf: library, flags: []string{"--fault", "errno=EACCES:cmd=get_context,every=1,count=0"}, code: 4,
			want: []string{"this user may not open the device file"}},
	} {
		t.Run(name, func(t *testing.T) {
			tt.w.skip(t)
			out, err := tt.w.emulate(t, tt.flags, append(tt.perf, "doctor", "--native", "-v")...)
			var exit *exec.ExitError
			if errors.As(err, &exit) != (tt.code != 0) || exit != nil && exit.ExitCode() != tt.code {
				t.Errorf("%v, want exit status %d", err, tt.code)
			}
			for _, text := range tt.want {
				if !strings.Contains(out, text) {
					t.Errorf("want %q", text)
				}
			}
			if t.Failed() || tt.code == 0 && strings.Contains(out, "error ") {
				t.Errorf("\n%s", out)
			}
		})
	}
}

// TestEmuNative_Missing runs static programs on a host without a file that they need: they exit with 1 and name it.
func TestEmuNative_Missing(t *testing.T) {
	testutil.NeedEmu(t)
	buildStatic(t)
	for _, tt := range []struct{ file, program, args string }{
		{"uverbs0", "rdmaperf", "write bw -d mlx5_0"},
		{"uverbs0", "kv", "-b 10.88.0.1"},
		{"uverbs0", "rping", "-s -a 10.88.0.1"},
		{"rdma_cm", "rdmaperf", "write bw -R"},
		{"rdma_cm", "kv", "-b 10.88.0.1"},
		{"rdma_cm", "rping", "-s"},
	} {
		for _, w := range staticWays {
			t.Run(w.name+"/"+tt.program+" without "+tt.file, func(t *testing.T) {
				w.skip(t)
				// The folder that the emulator opens is its own.
				script := "exec 3</dev/infiniband; mv /proc/self/fd/3/" + tt.file + " /proc/self/fd/3/hidden || exit 2; " +
					strings.Join(w.static(tt.program, strings.Fields(tt.args)...), " ") + "; echo exit $?"
				out, err := w.emulate(t, nil, "bash", "-c", script)
				if err != nil || !strings.HasSuffix(out, "exit 1\n") || !strings.Contains(out, tt.file) ||
					strings.Contains(out, "libibverbs") || strings.Contains(out, "librdmacm") {
					t.Errorf("%v; want exit status 1 and the name of the file, and of no library\n%s", err, tail(out))
				}
			})
		}
	}
}
