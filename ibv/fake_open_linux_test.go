package ibv

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/internal/provider"
	"github.com/pureverbs/pureverbs/internal/sysfs/sysfstest"
	"github.com/pureverbs/pureverbs/loader"
)

// fakeKernel makes a sysfs with the devices of the fake library, and a folder of
// device files that is empty. It lasts until the end of the test.
func fakeKernel(t *testing.T, names ...string) (tr *sysfstest.Tree, dev string) {
	t.Helper()
	tr = sysfstest.New(t)
	for i, name := range names {
		tr.Device(name, "", "", "0002:c903:0000:0000")
		dir := "class/infiniband_verbs/uverbs" + string(rune('0'+i)) + "/"
		tr.Write(dir+"ibdev", name)
		tr.Write(dir+"dev", "1:3")
	}
	t.Setenv("SYSFS_PATH", tr.Root)
	dev = t.TempDir()
	old := deviceDir
	deviceDir = dev
	t.Cleanup(func() { deviceDir = old })
	return tr, dev
}

// noDescriptors runs f with no more than spare descriptors to open.
func noDescriptors(t *testing.T, spare int, f func()) {
	t.Helper()
	var old unix.Rlimit
	ok(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	var free []int // the last is not to be had; others between them may be in use
	for range spare + 1 {
		fd, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
		ok(t, err)
		free = append(free, fd)
	}
	for _, fd := range free {
		ok(t, unix.Close(fd))
	}
	ok(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(free[spare]), Max: old.Max}))
	defer func() { ok(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old)) }()
	f()
}

// deviceFile makes a device file, or skips.
func deviceFile(t *testing.T, path string, major, minor uint32) {
	t.Helper()
	if err := unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(major, minor))); err != nil {
		t.Skipf("no device files can be made here: %v", err)
	}
	if fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
		t.Skipf("no device files can be made here: %v", err)
	} else {
		ok(t, unix.Close(fd))
	}
}

// libibverbs tries another path after the first, and reports the errno of that.
func TestFake_DeviceFile(t *testing.T) {
	needFake(t)
	failing(t, "ibv_open_device", syscall.ENOENT)
	open := func(t *testing.T, want error, words ...string) error {
		t.Helper()
		_, err := Open("fake0")
		wantErr(t, err, want, append(words, "open device fake0")...)
		return err
	}
	fileError := func(t *testing.T, err error, path string) {
		t.Helper()
		var fe *DeviceFileError
		if !errors.As(err, &fe) || fe.Path != path {
			t.Errorf("%v is no DeviceFileError of %s", err, path)
		}
	}
	t.Run("no folder", func(t *testing.T) {
		_, dev := fakeKernel(t, "fake0")
		ok(t, os.Remove(dev))
		fileError(t, open(t, syscall.ENOENT, dev+"/uverbs0 is missing", "ib_uverbs"), dev+"/uverbs0")
	})
	t.Run("no file", func(t *testing.T) {
		_, dev := fakeKernel(t, "fake0")
		fileError(t, open(t, syscall.ENOENT, dev+"/uverbs0 is missing", "--device "+dev+"/uverbs0"), dev+"/uverbs0")
	})
	t.Run("no device", func(t *testing.T) {
		_, dev := fakeKernel(t, "fake0")
		ok(t, os.WriteFile(dev+"/uverbs0", nil, 0o600))
		fileError(t, open(t, syscall.ENODEV, "is not a device file"), dev+"/uverbs0")
	})
	t.Run("other device", func(t *testing.T) {
		_, dev := fakeKernel(t, "fake0")
		deviceFile(t, dev+"/uverbs0", 1, 5)
		fileError(t, open(t, syscall.ENODEV, "is device 1:5, and the kernel's uverbs0 is 1:3"), dev+"/uverbs0")
	})
	t.Run("no driver", func(t *testing.T) {
		tr, dev := fakeKernel(t, "fake0")
		// No driver has this number: ENXIO.
		if err := unix.Mknod(dev+"/uverbs0", unix.S_IFCHR|0o600, int(unix.Mkdev(60, 77))); err != nil {
			t.Skipf("no device files can be made here: %v", err)
		}
		tr.Write("class/infiniband_verbs/uverbs0/dev", "60:77")
		_, err := Open("fake0")
		if errors.Is(err, syscall.EACCES) {
			t.Skipf("no device files can be made here: %v", err)
		}
		wantErr(t, err, syscall.ENXIO, "no driver behind it")
	})
	t.Run("good", func(t *testing.T) {
		// Then it is something else, and the library's errno is all there is.
		_, dev := fakeKernel(t, "fake0")
		deviceFile(t, dev+"/uverbs0", 1, 3)
		err := open(t, syscall.ENOENT)
		if strings.Contains(err.Error(), dev) {
			t.Errorf("%v blames a good file", err)
		}
	})
	t.Run("not in sysfs", func(t *testing.T) {
		fakeKernel(t, "fake1")
		open(t, syscall.ENOENT)
	})
}

func TestExplainFile(t *testing.T) {
	st := &unix.Stat_t{Mode: unix.S_IFCHR | 0o600, Uid: 0, Gid: 109}
	for _, tt := range []struct {
		errno syscall.Errno
		typ   any
		words []string
	}{
		{syscall.EACCES, new(*PermissionError), []string{"mode is 0600", "user 0 and group 109",
			"this process runs as user"}},
		{syscall.EPERM, new(*PermissionError), []string{"devices cgroup", "network namespace"}},
		{syscall.EMFILE, new(*DescriptorError), []string{"RLIMIT_NOFILE"}},
		{syscall.ENFILE, new(*DescriptorError), []string{"fs.file-max"}},
		{syscall.EIO, new(*DeviceFileError), []string{"cannot be opened"}},
	} {
		err := explainFile("/dev/infiniband/uverbs0", st, tt.errno)
		wantErr(t, err, tt.errno, tt.words...)
		if !errors.As(err, tt.typ) {
			t.Errorf("%v is no %T", err, tt.typ)
		}
	}
}

// TestExplainPolicy: a mode that permits is not blamed.
func TestExplainPolicy(t *testing.T) {
	err := explainFile("/dev/infiniband/uverbs0", &unix.Stat_t{Mode: unix.S_IFCHR | 0o666}, syscall.EACCES)
	wantErr(t, err, syscall.EACCES, "mode 0666 permits it", "SELinux")
}

// TestFake_ExplainCM: what librdmacm's errno does not tell of a host without rdma_cm.
func TestFake_ExplainCM(t *testing.T) {
	leavesNothing(t)
	_, dev := fakeKernel(t, "fake0")
	for _, e := range []syscall.Errno{syscall.EPERM, syscall.ENOENT, syscall.EACCES, syscall.ENOMEM} {
		wantErr(t, explainCM(e), e, dev+"/rdma_cm is missing", "rdma_ucm")
	}
	if err := explainCM(syscall.EINVAL); err != syscall.EINVAL {
		t.Errorf("%v", err)
	}
	wantErr(t, explainCM(syscall.EMFILE), syscall.EMFILE, "RLIMIT_NOFILE")
	ok(t, os.WriteFile(dev+"/rdma_cm", nil, 0o600))
	wantErr(t, explainCM(syscall.EPERM), syscall.EPERM, dev+"/rdma_cm is not a device file")
	ok(t, os.Remove(dev+"/rdma_cm"))
	wantErr(t, explainCM(syscall.ENODEV), syscall.ENODEV, dev+"/uverbs0 is missing")
	set(t, "devices", 0)
	wantErr(t, explainCM(syscall.ENODEV), ErrNoDevice, "fake0")
	unset(t, "devices")

	deviceFile(t, dev+"/rdma_cm", 1, 3) // can be opened
	wantErr(t, explainCM(syscall.EPERM), syscall.EPERM, "speaks a version")
	if err := explainCM(syscall.EACCES); err != syscall.EACCES { // of a reserved port
		t.Errorf("%v, where the file can be opened", err)
	}
	deviceFile(t, dev+"/uverbs0", 1, 3)
	for _, e := range []syscall.Errno{syscall.ENODEV, syscall.ENOMEM} {
		if err := explainCM(e); err != e {
			t.Errorf("%v, where all is well", err)
		}
	}
	fakeKernel(t)
	set(t, "devices", 0)
	wantErr(t, explainCM(syscall.ENODEV), ErrNoDevice, "load a driver")
}

func TestFake_NoDescriptors(t *testing.T) {
	leavesNothing(t)
	fakeKernel(t, "fake0")
	wantLimit := func(err error, words ...string) {
		t.Helper()
		var de *DescriptorError
		if !errors.As(err, &de) || de.Max == 0 {
			t.Errorf("%v is no DescriptorError", err)
			return
		}
		wantErr(t, err, syscall.EMFILE, append(words, "no file descriptor left", "RLIMIT_NOFILE", "ulimit -n")...)
	}
	for spare := range 2 { // the library needs two
		noDescriptors(t, spare, func() {
			d, err := Open("fake0")
			if err == nil {
				ok(t, d.Close())
				t.Errorf("%d descriptors are enough", spare)
				return
			}
			wantLimit(err, "open device fake0")
		})
	}
	// Who waits for events needs a third.
	noDescriptors(t, 2, func() {
		d, err := Open("fake0")
		ok(t, err)
		_, err = d.AsyncEvent(t.Context())
		wantLimit(err, "async event fake0")
		ok(t, d.Close())
	})
	// libibverbs reports a lack of descriptors as a lack of devices.
	failing(t, "ibv_get_device_list", syscall.ENOSYS)
	noDescriptors(t, 0, func() {
		_, err := Devices()
		wantLimit(err, "list devices")
	})
	unset(t, "fail.ibv_get_device_list")
	set(t, "devices", 0)
	noDescriptors(t, 1, func() {
		_, err := Devices()
		wantLimit(err, "list devices")
		_, err = Open("")
		wantLimit(err, "list devices")
	})
}

// The kernel has devices that the library does not list.
func TestFake_Unlisted(t *testing.T) {
	leavesNothing(t)
	_, dev := fakeKernel(t, "fake0", "mlx5_7", "odd\x1b[2J")
	for _, f := range []string{"uverbs0", "uverbs1"} {
		ok(t, os.WriteFile(filepath.Join(dev, f), nil, 0o600))
	}
	wantUnlisted := func(err error, names ...string) {
		t.Helper()
		var u *UnlistedError
		if !errors.As(err, &u) || !errors.Is(err, ErrNoDevice) || len(u.Devices) != len(names) {
			t.Errorf("%v (%+v), want an UnlistedError about %q", err, u, names)
			return
		}
		for i, n := range names {
			if u.Devices[i].Name != n || u.Devices[i].Reason == "" {
				t.Errorf("%+v, want %q", u.Devices[i], n)
			}
		}
		if strings.ContainsAny(err.Error(), "\x1b\n") {
			t.Errorf("%q has what spoils a terminal", err)
		}
	}
	wantUnlisted(Unlisted(), "mlx5_7", "odd\x1b[2J")
	_, err := Open("mlx5_7")
	wantUnlisted(err, "mlx5_7")
	wantErr(t, err, ErrNoDevice, "open device mlx5_7: libibverbs (", ") does not list",
		"mlx5_7: no provider accepts it")
	_, err = Open("odd\x1b[2J")
	wantErr(t, err, ErrNoDevice, dev+"/uverbs2 is missing")
	_, err = Open("neither")
	if u := new(UnlistedError); errors.As(err, &u) {
		t.Errorf("%v tells of devices that were not asked for", err)
	}
	_, err = OpenGUID(12345)
	wantUnlisted(err, "mlx5_7", "odd\x1b[2J")

	set(t, "devices", 0)
	_, err = Open("")
	wantUnlisted(err, "fake0", "mlx5_7", "odd\x1b[2J")
	wantErr(t, err, ErrNoDevice, "it lists no device")
	_, err = OpenIndex(0)
	wantUnlisted(err, "fake0", "mlx5_7", "odd\x1b[2J")
	_, err = Devices()
	wantUnlisted(err, "fake0", "mlx5_7", "odd\x1b[2J")

	// All are listed, or there are none.
	unset(t, "devices")
	fakeKernel(t, "fake0", "fake1")
	ok(t, Unlisted())
	fakeKernel(t)
	ok(t, Unlisted())
	set(t, "devices", 0)
	if devs, err := Devices(); err != nil || len(devs) != 0 {
		t.Errorf("devices %v, %v", devs, err)
	}
	unset(t, "devices")
	t.Setenv("SYSFS_PATH", t.TempDir())
	ok(t, Unlisted())
}

// providersEnv is the folder that the library of a child has its drivers in.
const providersEnv = "PUREVERBS_TEST_PROVIDERS"

// A driver that is cut off would end the process when libibverbs loads it.
func TestFake_CutOffProvider(t *testing.T) {
	needFake(t)
	dir := os.Getenv(providersEnv)
	if dir == "" {
		dir = t.TempDir()
	}
	inChild(t, variant(t, `PROVIDER_DIR="`+dir+`"`), []string{providersEnv + "=" + dir}, func(t *testing.T) {
		_, dev := fakeKernel(t, "mlx5_0")
		ok(t, os.WriteFile(dev+"/uverbs0", nil, 0o600))
		ok(t, os.Mkdir(dir+"/libibverbs.d", 0o755))
		ok(t, os.WriteFile(dir+"/libibverbs.d/mlx5.driver", []byte("driver mlx5\n"), 0o644))
		self := must(os.ReadFile(os.Getenv(loader.PathEnv) + "/libibverbs.so.1"))(t)
		file := dir + "/libmlx5-rdmav34.so"
		ok(t, os.WriteFile(file, self[:len(self)/4], 0o755))

		_, err := Devices()
		var pe *ProviderError
		if !errors.As(err, &pe) {
			t.Errorf("%v is no ProviderError", err)
		}
		wantErr(t, err, ErrLibrary, "list devices", file+": is cut off")
		_, err = Open("mlx5_0")
		wantErr(t, err, ErrLibrary, file+": is cut off")

		// Mended, and missing: both are no reason not to list.
		ok(t, os.Remove(file))
		_, err = Open("mlx5_0")
		wantErr(t, err, ErrNoDevice, "its provider mlx5 has no file libmlx5-rdmav34.so in "+dir)
	})
}

// A libibverbs and a driver of another release, as its report and errors have it.
func TestFake_OtherProvider(t *testing.T) {
	needFake(t)
	dir := os.Getenv(providersEnv)
	if dir == "" {
		dir = t.TempDir()
	}
	inChild(t, variant(t, `PROVIDER_DIR="`+dir+`"`), []string{providersEnv + "=" + dir}, func(t *testing.T) {
		tr, dev := fakeKernel(t, "rocep59s0f0")
		tr.Symlink("../../../../bus/pci/drivers/mlx5_core", "devices/virtual/infiniband/rocep59s0f0/device/driver")
		ok(t, os.WriteFile(dev+"/uverbs0", nil, 0o600))
		ok(t, os.WriteFile(dir+"/libmlx5-rdmav25.so",
			must(os.ReadFile(os.Getenv(loader.PathEnv)+"/libibverbs.so.1"))(t),
			0o644))
		_, err := Open("rocep59s0f0")
		wantErr(t, err, ErrNoDevice, "driver mlx5_core", dir+"/libmlx5-rdmav25.so", provider.Release("25"),
			provider.Release("34"))
		list, err := Devices() // the fake library lists its own; without them it would list none
		if set(t, "devices", 0); len(list) == 0 || err != nil {
			t.Errorf("%v, %v", list, err)
		}
		list, err = Devices()
		var ue *UnlistedError
		if len(list) != 0 || !errors.As(err, &ue) {
			t.Errorf("%v, %v", list, err)
		}
		wantErr(t, err, ErrNoDevice, provider.Release("25"), provider.Release("34"))
		unset(t, "devices")
		r := loader.Report()
		if len(r.Providers) != 1 || r.Providers[0].Name != "mlx5" || r.Providers[0].ABI != "25" ||
			r.Providers[0].Problem == "" ||
			r.Libraries[0].ProviderABI != "34" || r.Libraries[0].ProviderDir != dir ||
			r.Libraries[0].ProviderConfig != dir+"/libibverbs.d" {
			t.Errorf("report %+v", r)
		}
		for _, want := range []string{provider.Release("34") + ", in " + dir, "mlx5 in " + dir + " is of " +
			provider.Release("25")} {
			if !strings.Contains(r.String(), want) {
				t.Errorf("no %q in\n%s", want, r)
			}
		}
	})
}
