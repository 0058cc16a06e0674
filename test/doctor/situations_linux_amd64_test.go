package doctor

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma"
)

// Names of environment variables for this test binary as a program.
const (
	bendsEnv = "PUREVERBS_TEST_BENDS" // run the arguments with these bends
	dialEnv  = "PUREVERBS_TEST_DIAL"  // listen at this address, and dial it
	waitEnv  = "PUREVERBS_TEST_WAIT"  // how long to dial
)

func TestMain(m *testing.M) {
	if text, ok := os.LookupEnv(bendsEnv); ok {
		os.Unsetenv(bendsEnv)
		bends, err := parseBends(text)
		if err != nil {
			panic(err)
		}
		code, err := runBent(bends, os.Args[1:])
		if err != nil {
			fmt.Fprintln(os.Stderr, "bend:", err)
			code = 125
		}
		os.Exit(code)
	}
	if address := os.Getenv(dialEnv); address != "" {
		if err := dial(address); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// dial is a program that uses rdma.Dial. It needs a listener, whose error is the same.
func dial(address string) error {
	wait, err := time.ParseDuration(os.Getenv(waitEnv))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	l, err := rdma.Listen(ctx, address, nil)
	if err == nil {
		defer l.Close()
		go func() {
			for {
				c, err := l.Accept(ctx)
				if err != nil {
					return
				}
				defer c.Close()
			}
		}()
	}
	c, err := rdma.Dial(ctx, address, nil)
	if err != nil {
		return err
	}
	return c.Close()
}

// programs are the columns of the table.
var programs = []string{"show_gids", "rdmaperf doctor", "rdma.Dial", "rdmaperf write bw"}

// script runs the four programs, and prints each one's exit status.
const script = `
run() { echo "== $1"; shift; "$@" 2>&1; echo "== status $?"; }
run show_gids "$BIN/show_gids" --best --why
run "rdmaperf doctor" "$BIN/rdmaperf" doctor
run rdma.Dial env PUREVERBS_TEST_DIAL="$AT:7471" "$SELF"
"$BIN/rdmaperf" write bw -n 5 $PERF >/dev/null 2>&1 &
run "rdmaperf write bw" "$BIN/rdmaperf" write bw -n 5 --retry 20 $PERF "$AT"
kill $! 2>/dev/null
wait
`

// situation is a host or a pod, made of emulated devices.
type situation struct {
	emu   []string          // its devices
	bends string            // what it has not, by files below
	files map[string]string // in the programs' folder; "from DIR without NAME" copies a folder of this host
	first string            // what the shell does first
	netns bool              // another network namespace than the devices'
	at    string            // the server; default 10.88.0.1
	perf  string            // more options
	wait  string            // for rdma.Dial
}

const uverbs = `^/dev/infiniband/uverbs0$`

// situations are the rows of testdata/situations.txt, by their first column.
var situations = map[string]situation{
	"all is well":      {},
	"no driver loaded": {bends: `^/sys/class/infiniband(_verbs)?(/|$) none/`},
	"exclusive network-namespace mode": {files: map[string]string{"m/netns_mode": "N", "e/.keep": ""},
		bends: "^/sys/module/ib_core/parameters(/|$) m/\n^/sys/class/infiniband(_verbs)?(/|$) e/"},
	"`/dev/infiniband` is missing": {bends: `^/dev/infiniband(/|$) none/`},
	"a device file is missing":     {bends: uverbs + " none"},
	"refused by its mode":          {bends: uverbs + " =EACCES 20600"},
	"by the devices control group": {bends: uverbs + " =EPERM"},
	"by a `nodev` mount": {bends: uverbs + " =EACCES\n^/proc/self/mountinfo$ i",
		files: map[string]string{"i": "31 25 0:30 / /dev/infiniband rw,nosuid,nodev - tmpfs tmpfs rw\n"}},
	"by SELinux":             {bends: uverbs + " =EACCES"},
	"the device was removed": {bends: uverbs + " =ENXIO"},
	"no provider of libibverbs": {bends: `/libibverbs(/|$) p/`,
		files: map[string]string{"p": "/usr/lib/*/libibverbs without libmlx5"}},
	"its configuration is missing": {bends: `^/etc/libibverbs.d(/|$) c/`,
		files: map[string]string{"c": "/etc/libibverbs.d without mlx5"}},
	"CRLF in its configuration": {bends: `^/etc/libibverbs.d(/|$) c/`,
		files: map[string]string{"c": "/etc/libibverbs.d without mlx5", "c/mlx5.driver": "driver mlx5\r\n"}},
	"no libibverbs": {bends: `/libibverbs\.so[^/]*$ none`},
	"no librdmacm":  {bends: `/librdmacm\.so[^/]*$ none`, perf: "-R"},
	"libibverbs is too old for librdmacm": {bends: `/libibverbs\.so\.1[^/]*$ old`, perf: "-R",
		files: map[string]string{"old": ""}},
	"`rdma_cm` is missing":    {bends: `^/dev/infiniband/rdma_cm$ none`, perf: "-R"},
	"`rdma_cm` is refused":    {bends: `^/dev/infiniband/rdma_cm$ =EACCES 20600`, perf: "-R"},
	"only GIDs of other pods": {netns: true, first: "ip link set lo up", at: "127.0.0.1"},
	"GIDs of other pods also": {emu: []string{"--device", "mlx5_0,gid=10.77.0.9/v2,gid=10.88.0.1/v2"},
		netns: true, first: "ip link set lo up; ip link add emu0 type dummy 2>&- || ip link add emu0 type bridge; " +
			"ip addr add 10.88.0.1/24 dev emu0; ip link set emu0 up"},
	"InfiniBand": {emu: []string{"--device", "mlx5_0,link=ib"}, at: "127.0.0.1"},
	"a VXLAN over a bond has the address also": {
		emu:   []string{"--device", "mlx5_0,vlan=100,gid=10.88.0.1/v2@100,gid=10.88.0.1/v2"},
		bends: "^/sys/class/net/emu0.100/uevent$ v\n^/sys/class/net/emu0/uevent$ b",
		files: map[string]string{"v": "DEVTYPE=vxlan\nINTERFACE=emu0.100\n", "b": "DEVTYPE=bond\nINTERFACE=emu0\n"}},
	"iWARP": {bends: "/mlx5_0/node_type$ r", files: map[string]string{"r": "4: RNIC\n"}},
	"the GID table is empty": {emu: []string{"--device", "mlx5_0,gid=::"},
		first: "ip addr add 10.88.0.1/24 dev lo"},
	"the port is down": {emu: []string{"--device", "mlx5_0,state=down"}, wait: "3s"},
	"only link-local addresses": {emu: []string{"--device", "mlx5_0,gid=fe80::e61d:2dff:fee0:0"},
		at: "127.0.0.1"},
	"little memory may be locked": {emu: []string{"--memlock", "65536"}, first: "ulimit -l 64"},
	"one device of four": {emu: []string{"--device", "mlx5_0", "--device", "mlx5_1", "--device", "mlx5_2", "--device",
		"mlx5_3"}, bends: "^/dev/infiniband/uverbs[123]$ none\n^/.dockerenv$ /dev/null"},
}

// others are rows that differ little from a row that runs each time.
var others = map[string]bool{
	"`/dev/infiniband` is missing": true, "refused by its mode": true, "by SELinux": true,
	"the device was removed": true, "no provider of libibverbs": true, "its configuration is missing": true,
	"no libibverbs": true, "no librdmacm": true, "`rdma_cm` is refused": true, "InfiniBand": true,
	"only link-local addresses": true, "all is well": true,
}

// prepare makes the files of a situation.
func (s *situation) prepare(t *testing.T, dir string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range s.files {
		from, without, copied := strings.Cut(text, " without ")
		path := filepath.Join(dir, name)
		must(os.MkdirAll(filepath.Dir(path), 0o755))
		if !copied {
			must(os.WriteFile(path, []byte(text), 0o644))
			continue
		}
		must(os.MkdirAll(path, 0o755))
		list, err := filepath.Glob(from + "/*")
		must(err)
		for _, f := range list {
			if strings.HasPrefix(filepath.Base(f), without) {
				continue
			}
			b, err := os.ReadFile(f)
			must(err)
			must(os.WriteFile(filepath.Join(path, filepath.Base(f)), b, 0o755))
		}
	}
	if _, old := s.files["old"]; old {
		buildOld(t, filepath.Join(dir, "old"))
	}
}

// buildOld makes a libibverbs without what librdmacm needs.
func buildOld(t *testing.T, lib string) {
	t.Helper()
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	if _, err := exec.LookPath(cc); err != nil {
		t.Skip("no C compiler: make setup installs gcc; or set CC")
	}
	src, versions := lib+".c", lib+".map"
	const code = "#include <stdlib.h>\nvoid *ibv_get_device_list(int *n) { if (n) *n = 0; return calloc(1, 8); }\n" +
		"void ibv_free_device_list(void *l) { free(l); }\n"
	if err := os.WriteFile(src, []byte(code), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(versions, []byte("IBVERBS_1.0 { }; IBVERBS_1.1 { global: *; };\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-Wl,-soname,libibverbs.so.1", "-Wl,--version-script="+versions,
		"-o", lib, src).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// said is what a program prints, and its exit status.
type said struct{ text, status string }

// run runs the four programs in a situation.
func (s *situation) run(t *testing.T) map[string]said {
	t.Helper()
	dir := t.TempDir()
	s.prepare(t, dir)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	programs, err := filepath.Abs(bin)
	if err != nil {
		t.Fatal(err)
	}
	at, wait := "10.88.0.1", "3m"
	if s.at != "" {
		at = s.at
	}
	if s.wait != "" {
		wait = s.wait
	}
	args := append(append([]string{}, s.emu...), "--")
	if s.bends != "" {
		args = append(args, "env", bendsEnv+"="+s.bends, self)
	}
	if s.netns {
		args = append(args, "unshare", "-n")
	}
	shell := []string{"sh", "-c", s.first + "\n" + script}
	if strings.HasPrefix(s.first, "ulimit -l") && os.Getuid() == 0 {
		shell = []string{"sh", "-c", s.first + `; exec setpriv --bounding-set=-ipc_lock sh -c "$0"`, script}
	}
	c := exec.Command(filepath.Join(programs, "emu"), append(args, shell...)...)
	c.Dir = dir
	c.Env = append(os.Environ(), "PUREVERBS_CONTROL=library", "BIN="+programs, "SELF="+self, "AT="+at, waitEnv+"="+wait,
		"PERF="+s.perf)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Run(); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	all := map[string]said{}
	for _, m := range parts.FindAllStringSubmatch(out.String(), -1) {
		all[m[1]] = said{m[2], m[3]}
	}
	return all
}

var parts = regexp.MustCompile(`(?ms)^== (show_gids|rdmaperf doctor|rdma.Dial|rdmaperf write bw)\n` +
	`(.*?)^== status (\d+)$`)

// TestEmuSituations: in each situation of a host or a pod, show_gids, rdmaperf doctor, rdma.Dial and rdmaperf name the
// cause that testdata/situations.txt lists.
func TestEmuSituations(t *testing.T) {
	testutil.NeedEmu(t)
	table, err := os.ReadFile("testdata/situations.txt")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, line := range strings.Split(strings.TrimSpace(string(table)), "\n")[2:] { // below the heading
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		s, ok := situations[cells[0]]
		if !ok || len(cells) != 1+len(programs) {
			t.Errorf("no situation of %q", line)
			continue
		}
		seen[cells[0]] = true
		if others[cells[0]] && !testutil.Full() {
			continue
		}
		t.Run(cells[0], func(t *testing.T) {
			t.Parallel()
			got := s.run(t)
			for i, name := range programs {
				check(t, name, cells[1+i], got[name])
			}
		})
	}
	for name := range situations {
		if !seen[name] {
			t.Errorf("the table has no %q", name)
		}
	}
}

var quoted = regexp.MustCompile("`([^`]+)`")

// check compares what a program says with a cell: "works", "-" for what the emulator cannot show, or code that the
// program prints, and then fails unless the cell begins with "works".
func check(t *testing.T, program, cell string, got said) {
	t.Helper()
	first := strings.Join(strings.Fields(got.text), " ")
	t.Logf("%s: status %s: %.700s", program, got.status, first)
	if cell == "-" {
		return
	}
	if works := strings.HasPrefix(cell, "works"); works != (got.status == "0") || got.status == "" {
		t.Errorf("%s: status %s, the table says %s", program, got.status, cell)
	}
	cell, _ = strings.CutPrefix(cell, "with `-R`: ")
	for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
		if !strings.Contains(first, m[1]) {
			t.Errorf("%s does not say %q:\n%s", program, m[1], got.text)
		}
	}
}
