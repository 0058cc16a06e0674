//go:build linux && amd64 && !race

package emu

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// hostEnv is the environment variable that names a test whose second half runs under emu.
const hostEnv = "EMU_HOST_INSIDE"

// inside runs the calling test a second time, under emu, and reports whether this is the run under emu.
func inside(t *testing.T, flags ...string) bool {
	t.Helper()
	if os.Getenv(hostEnv) == t.Name() {
		return true
	}
	c := exec.Command(emulator(), append(flags, "--", os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")...)
	c.Env = append(os.Environ(), hostEnv+"="+t.Name())
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("below emu %v: %v\n%s", flags, err, tail(string(out)))
	}
	return false
}

// script runs a shell script under emu, as the user or as nobody, and returns its output. EMU in it is the emulator.
func script(t *testing.T, nobody bool, flags []string, text string) string {
	t.Helper()
	c := exec.Command(emulator(), append(flags, "--", "sh", "-c", strings.ReplaceAll(text, "EMU", emulator()))...)
	c.Dir = "/"
	if nobody {
		if os.Getuid() != 0 {
			t.Skip("skipped: as root, make test-emu runs it: it takes root to become nobody")
		}
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v", text, err)
	}
	return string(out)
}

func emulator() string { return filepath.Join(root, ".build/bin/emu") }

// TestEmuNetwork checks that the network agrees with sysfs and the GID tables about the devices' interfaces, for root
// and for others; that programs reach one another by the addresses; and what --net=host does instead.
func TestEmuNetwork(t *testing.T) {
	testutil.NeedEmu(t)
	two := []string{"--device", "mlx5_0", "--device", "mlx5_1"}
	for name, nobody := range map[string]bool{"root": false, "nobody": true} {
		t.Run(name, func(t *testing.T) {
			out := script(t, nobody, two, `for n in lo emu0 emu0.100 emu1; do
	set -- $(ip -o link show $n) || exit 1
	test "$1" = "$(cat /sys/class/net/$n/ifindex):" || echo "$n is number $1"
	case "$*" in *"link/ether $(cat /sys/class/net/$n/address) "*|*loopback*) ;; *) echo "$n: $*";; esac
	case "$*" in *"mtu $(cat /sys/class/net/$n/mtu) "*) ;; *) echo "$n: $*";; esac
done
test "$(ls /sys/class/net)" = "$(printf 'emu0\nemu0.100\nemu1\nemu1.100\nlo')" || ls /sys/class/net
test "$(ls /sys/class/infiniband/mlx5_1/device/net)" = emu1 || ls /sys/class/infiniband/mlx5_1/device/net
for i in 0 2 4 6; do
	g=$(cat /sys/class/infiniband/mlx5_1/ports/1/gid_attrs/ndevs/$i)
	ip -o addr show $g | grep -Eq "fe80::|10.88.1.1/24|fd00:88::101/64" || echo "gid $i: nothing on $g"
done
EMU control stats >/dev/null || echo control
EMU control gid mlx5_0 1 3 10.1.2.3 >/dev/null
ip -4 -o addr show emu0 | grep -q 10.1.2.3/24 || echo "the new GID's address is missing"
ip -4 -o addr show emu0 | grep -q 10.88.0.1/24 || echo "an address that GID 2 has is gone"
EMU control gid mlx5_0 1 2 none >/dev/null
ip -4 -o addr show emu0 | grep -q 10.88.0.1/24 && echo "an address that no GID has is left"
grep -q "CapEff:.*0000000000000000" /proc/self/status || test $(id -u) = 0 || grep Cap /proc/self/status
true`)
			if out != "" {
				t.Errorf("the network and sysfs disagree:\n%s", out)
			}
		})
	}
	t.Run("traffic", func(t *testing.T) {
		for _, command := range []string{"rping -C 3 -v -V", "ib_write_bw -n 20", "ib_write_bw -R -n 20"} {
			row{command: command, host: "10.88.0.1"}.run(t, here)
		}
	})
	t.Run("host", func(t *testing.T) {
		out := script(t, false, append(two, "--net=host"),
			`readlink /proc/self/ns/net; ls /sys/class/infiniband/mlx5_0/device/net /sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs 2>&1; ip link show emu0 2>&1; EMU control port mlx5_0 1 down; true`)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		own, err := os.Readlink("/proc/self/ns/net")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat("/sys/class/net/emu0"); err == nil {
			t.Skip("skipped: this machine has an emu0")
		}
		if !strings.HasPrefix(out, own+"\n") || strings.Count(out, "No such file") != 1 || !strings.Contains(out,
			"does not exist") || !strings.HasSuffix(out, "true\n") {
			t.Errorf("with the machine's network, %s, a program sees\n%s", own, out)
		}
	})
}

// TestEmuKilled checks that an emulator that is killed leaves nothing behind. What it cannot remove itself, the init of
// its programs removes, or else the next emulator.
func TestEmuKilled(t *testing.T) {
	testutil.NeedEmu(t)
	tmp := t.TempDir()
	folders := func() (names []string) {
		entries, err := os.ReadDir(tmp)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	start := func() (c *exec.Cmd, init int) {
		c = exec.Command(emulator(), "--control", tmp+"/control", "--", "sh", "-c", "echo; echo PPid: $PPID; sleep 600")
		c.Env = append(os.Environ(), "TMPDIR="+tmp)
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = c.Process.Kill()
			_ = c.Wait()
		})
		in := bufio.NewScanner(out)
		for range 2 {
			if !in.Scan() {
				t.Fatal("the program said nothing")
			}
		}
		init, err = strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(in.Text(), "PPid:")))
		if err != nil || init == c.Process.Pid {
			t.Fatalf("init is %q: %v", in.Text(), err)
		}
		return c, init
	}
	next := func() {
		t.Helper()
		c := exec.Command(emulator(), "--control", tmp+"/control", "--", "true")
		c.Env = append(os.Environ(), "TMPDIR="+tmp)
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("the next one: %v\n%s", err, out)
		}
	}
	c, _ := start()
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	for end := time.Now().Add(limit); len(folders()) > 1 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
	}
	if left := folders(); len(left) > 1 {
		t.Errorf("after SIGKILL there is %v", left)
	}
	next()
	if left := folders(); len(left) != 0 {
		t.Errorf("after the next one there is %v", left)
	}

	c, init := start()
	if err := unix.Kill(init, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	_ = c.Process.Kill()
	_ = c.Wait()
	_ = unix.Kill(init, unix.SIGKILL)
	next()
	if left := folders(); len(left) != 0 {
		t.Errorf("after SIGKILL of the emulator and of the init, and the next one, there is %v", left)
	}
	// A running emulator keeps its own files.
	_, _ = start()
	before := folders()
	other := exec.Command(emulator(), "--", "true")
	other.Env = append(os.Environ(), "TMPDIR="+tmp)
	if out, err := other.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if after := folders(); len(before) != 2 || !slices.Equal(after, before) {
		t.Errorf("there was %v, and after another one's run there is %v", before, after)
	}
}

// TestEmuRights checks that a program needs rights of its own for files that the emulator opens for it: the machine's
// PCI devices, and files beyond the emulated folders.
func TestEmuRights(t *testing.T) {
	testutil.NeedEmu(t)
	if os.Getuid() != 0 {
		t.Skip("skipped: as root, make test-emu runs it: it takes root to have rights to drop")
	}
	secret := t.TempDir() + "/secret"
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	look := `cd /sys/bus/pci/devices
for d in 0000*; do
	for f in config resource resource0 vendor enable remove; do
		test -e $d/$f || continue
		for how in r w x; do test -$how $d/$f && echo $d/$f $how; done
		(exec 3<$d/$f) 2>/dev/null && echo $d/$f is opened
		(exec 3<>$d/$f) 2>/dev/null && echo $d/$f is opened to write
		stat -L -c "%n %a %u %s" $d/$f
	done
	head -c 4096 $d/config | wc -c
done
readlink 0000*/driver; echo`
	for name, command := range map[string][]string{
		"root": {"sh", "-c", look}, "nobody": {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
			"sh", "-c", look},
		"powerless": {"setpriv", "--inh-caps=-all", "--bounding-set=-all", "sh", "-c", look},
	} {
		want, err := exec.Command(command[0], command[1:]...).Output()
		if err != nil {
			t.Fatal(err)
		}
		got, err := exec.Command(emulator(), append([]string{"--"}, command...)...).Output()
		if diff := cmp.Diff(string(want), string(got)); err != nil || diff != "" {
			t.Errorf("%s sees of the machine's PCI devices below emu: %v, (-without, +below)\n%s", name, err, diff)
		}
	}
	for name, tt := range map[string]struct {
		command []string
		want    string
	}{"root": {nil, "x"}, "nobody": {[]string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"},
		"denied"}} {
		command := append(tt.command, "perl", "-e",
			`opendir(my $d, "/sys/class/infiniband") or die; chdir($d) or die "chdir: $!"; open(my $f, "<", "../../../../../..$ARGV[0]") or print "$!"; print <$f>`, secret)
		if out, err := exec.Command(emulator(), append([]string{"--"}, command...)...).Output(); err != nil ||
			!strings.Contains(string(out), tt.want) {
			t.Errorf("%s reads a file of root's through an emulated folder: %q, %v; want %q", name, out, err, tt.want)
		}
	}
}

// look returns the results of calls on a link to a folder of sysfs and on a file in that folder.
func look(link, file string) (out []string) {
	say := func(what string, args ...any) { out = append(out, what+" "+fmt.Sprint(args...)) }
	mode := func(st unix.Stat_t) string { return fmt.Sprintf("%o %d ", st.Mode&unix.S_IFMT, st.Uid) }
	folder := filepath.Dir(link)
	for _, p := range []string{"", "/", "/.", "/..", "/../", "/../..", "/subsystem", "/subsystem/", "/" + file,
		"/" + file + "/", "/" + file + "/..", "/nothing", "/nothing/..", "/" + file + "/x"} {
		var st unix.Stat_t
		err := unix.Lstat(link+p, &st)
		say("lstat "+p, mode(st), err)
		st = unix.Stat_t{}
		err = unix.Stat(link+p, &st)
		say("stat "+p, mode(st), err)
		_, err = unix.Readlink(link+p, make([]byte, 1000))
		say("readlink "+p, err)
		say("access "+p, unix.Access(link+p, unix.R_OK), unix.Access(link+p, unix.W_OK), unix.Access(link+p, unix.X_OK))
		for _, flags := range []int{
			0, unix.O_RDWR, unix.O_DIRECTORY, unix.O_NOFOLLOW, unix.O_PATH, unix.O_CREAT, unix.O_CREAT | unix.O_EXCL,
			unix.O_CREAT | unix.O_RDWR,
		} {
			fd, err := unix.Open(link+p, flags|unix.O_CLOEXEC, 0o600)
			say(fmt.Sprintf("open %s %#x", p, flags), err)
			unix.Close(fd)
		}
		for _, resolve := range []uint64{0, unix.RESOLVE_NO_SYMLINKS, 1 << 40} {
			if resolve == unix.RESOLVE_NO_SYMLINKS && strings.Contains(p, "..") {
				continue // the links before ".." are followed all the same
			}
			fd, err := unix.Openat2(unix.AT_FDCWD, link+p, &unix.OpenHow{Flags: unix.O_CLOEXEC, Resolve: resolve})
			say(fmt.Sprintf("openat2 %s %#x", p, resolve), err)
			unix.Close(fd)
		}
		// From inside, by chdir and by a descriptor.
		if err := unix.Chdir(link + p); err != nil {
			say("chdir "+p, err)
			continue
		}
		wd, err := unix.Getwd()
		self, err2 := os.Readlink("/proc/self/cwd")
		say("chdir "+p, self == wd, strings.Count(wd, "/") > 1, strings.HasPrefix(wd, "/sys"), err, err2)
		_, err = unix.Getcwd(make([]byte, len(wd)))
		say("getcwd without room", err)
		for _, rel := range []string{file, "./" + file, "subsystem/" + filepath.Base(link) + "/" + file,
			"../" + filepath.Base(link) + "/" + file, "..", "../..", "../../../../../../../../etc/passwd"} {
			fd, err := unix.Open(rel, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			say("relative "+p+" "+rel, err)
			unix.Close(fd)
		}
		say("chdir ..", unix.Chdir(".."), unix.Chdir("../../../../../.."))
		wd, err = unix.Getwd()
		say("getcwd", wd, err)
	}
	if fd, err := unix.Open(folder, unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
		for _, rel := range []string{filepath.Base(link), filepath.Base(link) + "/" + file, "..", "../net/lo/mtu",
			"../../class/net/lo/../lo", filepath.Base(link) + "/../../../../../../../../../../../etc/passwd"} {
			f, err := unix.Openat(fd, rel, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			say("openat "+rel, err)
			unix.Close(f)
		}
		say("fchdir", unix.Fchdir(fd))
		_, err = os.ReadFile(filepath.Base(link) + "/" + file)
		say("after fchdir", err)
		unix.Close(fd)
	}
	for i, s := range out {
		out[i] = strings.ReplaceAll(strings.ReplaceAll(s, filepath.Base(link), "LINK"), file, "FILE")
	}
	return out
}

// TestEmuPaths compares the results of calls on the emulated folders with the kernel's for a network interface, which
// lies in folders of the same kind.
func TestEmuPaths(t *testing.T) {
	testutil.NeedEmu(t)
	if os.Getenv(hostEnv) == t.Name() {
		fmt.Println(strings.Join(look("/sys/class/infiniband/mlx5_0", "node_guid"), "\n"))
		return
	}
	links, _ := filepath.Glob("/sys/class/net/*/device") // one with a device: its folders are as deep
	link := "/sys/class/net/lo"
	if len(links) > 0 {
		link = filepath.Dir(links[0])
	}
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	want := look(link, "address")
	if err := os.Chdir(wd); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(emulator(), "--", os.Args[0], "-test.run=^TestEmuPaths$")
	c.Env = append(os.Environ(), hostEnv+"="+t.Name())
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got := strings.Split(string(out), "\n")
	got = got[:min(len(want), len(got))]
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-%s +emulated:\n%s", link, diff)
	}
}

// TestEmuNetlink checks that iproute2's rdma finds the devices and follows their changes.
func TestEmuNetlink(t *testing.T) {
	testutil.NeedEmu(t)
	flags := []string{"--device", "mlx5_0", "--device", "mlx5_1,link=ib,ports=2"}
	want := `0: mlx5_0: node_type ca fw 28.39.1002 node_guid e41d:2d03:00e0:0000 sys_image_guid e41d:2d03:00e0:0000
link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev emu0
link mlx5_1/2 subnet_prefix fe80:0000:0000:0000 lid 4 sm_lid 1 lmc 0 state ACTIVE physical_state LINK_UP
true
link mlx5_0/1 state DOWN physical_state DISABLED netdev emu0
true
1: mlx5_1: node_type ca fw 28.39.1002 node_guid e41d:2d03:00e0:0010 sys_image_guid e41d:2d03:00e0:0010
Device "emu0" does not exist.
lo
error: Operation not supported
`
	for _, nobody := range []bool{false, true} {
		out := script(t, nobody, flags, `rdma dev show mlx5_0; rdma link show mlx5_0/1; rdma link | tail -1; EMU control port mlx5_0 1 down; rdma link show mlx5_0/1; EMU control remove mlx5_0; rdma dev; ip link show emu0 2>&1; ls /sys/class/net
rdma dev set mlx5_1 name other 2>&1; ibv_devices >/dev/null`)
		var got strings.Builder
		for line := range strings.Lines(out) {
			got.WriteString(strings.TrimRight(line, " \n") + "\n")
		}
		if diff := cmp.Diff(want, got.String()); diff != "" {
			t.Errorf("as nobody: %v; -want +got\n%s", nobody, diff)
		}
	}
}
