package command

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_Memory runs tests whose messages stand elsewhere than in ordinary pages, and checks every byte; and beside
// perftest, in both roles, with the same option where perftest has it.
func TestRXE_Memory(t *testing.T) {
	vm := testutil.NeedRXE(t)
	files := [2]string{filepath.Join(t.TempDir(), "server"), filepath.Join(t.TempDir(), "client")}
	for _, f := range files {
		if err := os.WriteFile(f, make([]byte, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	soft := !vm.Emulated && !vm.Hardware
	direct := os.Getenv("PUREVERBS_DATAPATH") != "ops"
	n := 0
	for _, r := range []struct {
		args  string // FILE is each end's own
		kinds string // a short run has the first one
		here  bool
		stock string // what perftest is given beside it; "" runs none
		says  string // the JSON object
	}{
		{"--use-hugepages", "write bw, send lat", soft, "--use_hugepages", "huge pages"},
		{"--mmap FILE --mmap-offset 8192", "write lat, read bw", here(vm, 1), "--mmap=FILE --mmap-offset=8192", "file"},
		{"--disable-pcie-relaxed", "write bw", here(vm, 2), "--disable_pcie_relaxed", "pages"},
		{"--odp", "send bw, read lat, send lat", !soft && direct, "--odp", "pages"},
		{"--odp-implicit", "write bw, send lat", !soft && !direct, "", "pages"},
		{"--use-dm", "read lat, write bw, send lat", !soft && !direct, "-m 1024", "device memory"},
		{"--use-dm --write-with-imm", "write lat", !soft && direct, "", "device memory"},
		{"--use-null-mr", "write bw, read lat", !soft && direct, "", "pages"},
	} {
		for i, k := range strings.Split(r.kinds, ", ") {
			if !r.here && (soft || !testutil.Full()) || i > 0 && !testutil.Full() {
				continue
			}
			n++
			verb, metric, _ := strings.Cut(k, " ")
			size := map[string]string{"bw": "3000", "lat": "16"}[metric]
			ends := func(args ...string) (both [2][]string) {
				for i := range both {
					for _, a := range append(slices.Clone(args), "-s", size, "-n", "60") {
						both[i] = append(both[i], strings.ReplaceAll(a, "FILE", files[i]))
					}
				}
				return both
			}
			ours := ends(append([]string{"rdmaperf", verb, metric, "--json"}, strings.Fields(r.args)...)...)
			t.Run(k+" "+r.args[2:], func(t *testing.T) {
				if r.args == "--use-hugepages" {
					needHugePages(t, 16)
				}
				checks := ours
				for i := range checks {
					if r.args != "--use-null-mr" {
						checks[i] = append(slices.Clip(ours[i]), "--verify")
					}
				}
				srv, cli := runPair(t, vm, checks[0], checks[1])
				s, c := srv.outcome(t), cli.outcome(t)
				if s.Test.Memory != r.says || c.Test.Memory != r.says ||
					r.args != "--use-null-mr" && !s.Verified && !c.Verified {
					t.Errorf("server %+v, client %+v", s, c)
				}
				if r.stock == "" {
					return
				}
				theirs := ends(append([]string{"ib_" + verb + "_" + metric, "-F"}, strings.Fields(r.stock)...)...)
				if n%2 == 0 || testutil.Full() {
					runPair(t, vm, ours[0], theirs[1])
				}
				if n%2 == 1 || testutil.Full() {
					runPair(t, vm, theirs[0], ours[1])
				}
			})
		}
	}
}

// needHugePages has the kernel reserve huge pages until the test ends, unless enough are free. Only root may. Tests of
// other processes that need some wait: they would take what this one has reserved.
func needHugePages(t *testing.T, n int) {
	t.Helper()
	const file = "/proc/sys/vm/nr_hugepages"
	read := func() (total, free int) {
		b, err := os.ReadFile("/proc/meminfo")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			fmt.Sscanf(line, "HugePages_Total: %d", &total)
			fmt.Sscanf(line, "HugePages_Free: %d", &free)
		}
		return total, free
	}
	lock, err := os.OpenFile(filepath.Join(os.TempDir(), "pureverbs-hugepages"), os.O_CREATE, 0o600)
	if err == nil {
		t.Cleanup(func() { lock.Close() })
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
	}
	if err != nil && os.Getuid() == 0 {
		t.Fatal(err)
	}
	total, free := read()
	if free >= n {
		return
	}
	if err := os.WriteFile(file, []byte(strconv.Itoa(total+n-free)), 0); err != nil {
		t.Skip("the kernel has no huge pages, and only root may reserve some:", err)
	}
	more, free := read()
	t.Cleanup(func() {
		now, _ := read()
		if err := os.WriteFile(file, []byte(strconv.Itoa(now-(more-total))), 0); err != nil {
			t.Error(err)
		}
	})
	if free < n {
		t.Skipf("the kernel found memory for %d huge pages of %d", free, n)
	}
}

// TestRXE_MemoryRefused: a server says at once what the device, the file or the machine does not have.
func TestRXE_MemoryRefused(t *testing.T) {
	vm := testutil.NeedRXE(t)
	dir := t.TempDir()
	short := filepath.Join(dir, "short")
	if err := os.WriteFile(short, make([]byte, 8192), 0o600); err != nil {
		t.Fatal(err)
	}
	rows := [][2]string{
		{"write bw --mmap " + short, "it has only 8192 bytes; lengthen it: truncate -s 131072"},
		{"write bw -s 1G --use-hugepages", "raise /proc/sys/vm/nr_hugepages by"},
		{"write bw --cpus 4000", "this process may not use 4000, but "},
	}
	if vm.Emulated {
		rows = append(rows,
			[2]string{"send bw -c UD --odp", "a device whose UD has Recv, have mlx5_0 with Send"},
			[2]string{"write bw -c UC --odp-implicit", "a device whose UC has Write, have mlx5_0 with 0"},
			[2]string{"write bw -s 256K --use-dm", "max_dm_size"})
	} else if !vm.Hardware {
		rows = append(rows,
			[2]string{"write bw --odp", "on-demand paging"},
			[2]string{"write bw --use-dm", "device memory is not supported"},
			[2]string{"write bw --use-null-mr", "a null MR is not supported"})
	}
	for i, r := range rows {
		if !here(vm, i) && !(i > 2 && !vm.Emulated) {
			continue // each is the same with both data paths, but for what SoftRoCE lacks
		}
		args := append(strings.Fields(r[0]), "-d", vm.Dev[0], "-p", freshPort())
		p := start(t, "rdmaperf", args...)
		if rc := p.wait(t); rc != 1 || !strings.Contains(p.diag.String(), r[1]) ||
			strings.Contains(p.diag.String(), "waiting") {
			t.Errorf("rdmaperf %s: exit code %d, want 1 and %q\n%s", r[0], rc, r[1], p.output())
		}
	}
}

// TestRXE_CUDA moves messages between GPUs of a library that the test makes. Where no library is, the error names what
// was looked for.
func TestRXE_CUDA(t *testing.T) {
	vm := testutil.NeedRXE(t)
	if !vm.Emulated {
		p := start(t, "rdmaperf", "write", "bw", "--use-cuda", "0", "-d", vm.Dev[0], "-p", freshPort())
		if rc := p.wait(t); rc != 1 || !vm.Hardware && !strings.Contains(p.diag.String(),
			"CUDA's driver library cannot be opened (libcuda.so.1: ") {
			t.Errorf("exit code %d\n%s", rc, p.output())
		}
		return
	}
	if r := testutil.Libraries(); r != "" {
		t.Skip("skipped: the root of", r, "has no C compiler")
	}
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	cc := append(strings.Fields(os.Getenv("CC")), "cc")[0]
	out, err := exec.Command(cc, "-shared", "-fPIC", "-o", filepath.Join(dir, "libcuda.so.1"),
		"../../../../internal/cuda/testdata/fakecuda.c").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Setenv("LD_LIBRARY_PATH", dir+":"+os.Getenv("LD_LIBRARY_PATH"))
	t.Setenv("FAKE_LOG", log)
	// freed looks at what came and went, each as often as the other.
	freed := func(t *testing.T) {
		t.Helper()
		b, err := os.ReadFile(log)
		os.Remove(log)
		count := func(s string) int { return strings.Count(string(b), s+"\n") }
		if err != nil || count("+context") == 0 || count("+context") != count("-context") ||
			count("+memory") != count("-memory") || count("export") == 0 {
			t.Errorf("not everything was freed, or nothing was there: %v\n%s", err, b)
		}
	}
	const dmabuf = " --use-cuda-dmabuf"
	swapped := vm // the second device takes no memfd for a dma-buf
	slices.Reverse(swapped.Dev[:])
	slices.Reverse(swapped.Host[:])
	for i, r := range []struct {
		kind, server, client string
		vm                   testutil.RXE
	}{
		{"read lat -s 8", "--use-cuda 1", "--use-cuda-bus-id 0000:01:00.0" + dmabuf, swapped},
		{"write bw -s 5000", "--use-cuda 0" + dmabuf, "--use-cuda 1", vm},
		{"send lat -s 16", "--use-cuda 1" + dmabuf, "--use-cuda 0", vm},
		{"send bw -b -q 2 -s 3000", "--use-cuda-bus-id 0000:00:00.0" + dmabuf, "--use-cuda 0", vm},
		{"read bw -s 64", "--use-cuda 0", "--use-cuda 1" + dmabuf, swapped},
		{"send bw -c XRC -s 40", "--use-cuda 0" + dmabuf, "--use-cuda 1", vm},
	} {
		if !here(vm, i) && i > 0 {
			continue
		}
		t.Run(r.kind, func(t *testing.T) {
			args := strings.Fields("rdmaperf " + r.kind + " -n 60 --verify --json")
			srv, cli := runPair(t, r.vm, append(slices.Clone(args), strings.Fields(r.server)...),
				append(args, strings.Fields(r.client)...))
			s, c := srv.outcome(t), cli.outcome(t)
			if s.Test.Memory != "cuda" || !s.Verified && !c.Verified {
				t.Errorf("server %+v, client %+v", s, c)
			}
			freed(t)
		})
	}
	t.Run("stock peer", func(t *testing.T) {
		if !testutil.Full() && vm.Emulated && os.Getenv("PUREVERBS_DATAPATH") == "ops" {
			t.Skip("tells nothing of the data path: on libmlx5's only make test-full runs it")
		}
		args := strings.Fields("rdmaperf write bw -s 5000 -n 60 --json --use-cuda 0" + dmabuf)
		runPair(t, vm, args, strings.Fields("ib_write_bw -F -s 5000 -n 60"))
		freed(t)
	})
	for _, r := range []struct{ dev, args, want string }{
		{vm.Dev[0], "--use-cuda 2", "gpu 2 is not there: there are 2, from 0"},
		{vm.Dev[0], "--use-cuda 0 --use-cuda-dmabuf --use-data-direct", "mlx5dv register dmabuf"},
		{vm.Dev[1], "--use-cuda 0 --use-cuda-dmabuf", "is not a dma-buf"},
	} {
		args := strings.Fields("write bw -d " + r.dev + " -p " + freshPort() + " " + r.args)
		p := start(t, "rdmaperf", args...)
		if rc := p.wait(t); rc != 1 || !strings.Contains(p.diag.String(), r.want) {
			t.Errorf("%v: exit code %d, want 1 and %q\n%s", args, rc, r.want, p.output())
		}
	}
	freed(t)
}

// TestRXE_CPUs: all threads of a test run where they should, and the table, the JSON object and a warning say what was
// chosen and what spoils the figures.
func TestRXE_CPUs(t *testing.T) {
	vm := testutil.NeedRXE(t)
	port, cpu := freshPort(), fmt.Sprint(runtime.NumCPU()-1)
	args := []string{"write", "bw", "-D", "100", "-p", port}
	srv := start(t, "rdmaperf", append(slices.Clone(args), "-d", vm.Dev[0])...)
	listening(t, srv, port)
	cli := start(t, "rdmaperf", append(slices.Clone(args), "-d", vm.Dev[1], "--cpus", cpu, vm.Host[0])...)
	begun(t, cli)
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", cli.Process.Pid))
	for _, f := range tasks {
		b, _ := os.ReadFile(f)
		if len(b) > 0 && !strings.Contains(string(b), "Cpus_allowed_list:\t"+cpu+"\n") {
			t.Errorf("%s: a thread may run elsewhere than on %s\n%s", f, cpu, b)
		}
	}
	if want := "place    cpus " + cpu + " as asked for"; len(tasks) == 0 || !strings.Contains(cli.out.String(), want) {
		t.Errorf("%d threads, want %q\n%s", len(tasks), want, cli.output())
	}
	if want := "warning: " + vm.Dev[1] + "/1: active MTU 1024, because "; vm.Emulated &&
		!strings.Contains(cli.diag.String(), want) {
		t.Errorf("no %q\n%s", want, cli.output())
	}
	for _, p := range []*proc{cli, srv} {
		p.Process.Kill()
		<-p.done
	}
}
