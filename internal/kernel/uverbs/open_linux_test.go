package uverbs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// host makes a sysfs with a device's number and with versions. An empty value is a file that is missing.
func host(t *testing.T, dev, core, driver string) sysfs.Root {
	t.Helper()
	class := filepath.Join(t.TempDir(), "class", "infiniband_verbs")
	for name, v := range map[string]string{"abi_version": core, "uverbs0/abi_version": driver, "uverbs0/dev": dev} {
		file := filepath.Join(class, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if v == "" {
			continue
		}
		if err := os.WriteFile(file, []byte(v+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return sysfs.Root(filepath.Dir(filepath.Dir(class)))
}

// TestFile takes only the character device that sysfs names, whether this process opens it or another one has.
func TestFile(t *testing.T) {
	regular := filepath.Join(t.TempDir(), "uverbs0")
	if err := os.WriteFile(regular, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, path, dev, got string }{
		{"the device", os.DevNull, "1:3", ""},
		{"another device", os.DevNull, "231:192", "device 1:3"},
		{"another device of its driver", os.DevNull, "1:5", "device 1:3"},
		{"a regular file", regular, "1:3", "not a character device"},
		{"a folder", filepath.Dir(regular), "1:3", "not a character device"},
		{"no number", os.DevNull, "", "none"},
		{"no number that can be read", os.DevNull, "1", "none"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			check := func(how string, err error) {
				t.Helper()
				var e *FileError
				switch {
				case tt.got == "":
					if err != nil {
						t.Errorf("%s: %v", how, err)
					}
				case tt.got == "none":
					if err != syscall.ENODEV {
						t.Errorf("%s: %v, want ENODEV", how, err)
					}
				case !errors.As(err, &e) || !errors.Is(err, syscall.ENODEV) || e.Got != tt.got ||
					!strings.Contains(e.Want, tt.dev):
					t.Errorf("%s: %v, want that it is %s", how, err, tt.got)
				}
			}
			root := host(t, tt.dev, "6", "1")
			// As Open does, but for the folder of the file.
			node := ReadNode(root, "uverbs0")
			if node.Number != 0 && tt.name != "a folder" {
				fd, err := openFile(tt.path, node.Number)
				if check("opened", err); err == nil {
					flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
					if err != nil || flags&unix.FD_CLOEXEC == 0 {
						t.Errorf("flags %#x, %v: a child would inherit it", flags, err)
					}
					_ = CloseFD(fd)
				}
			}
			f, err := os.Open(tt.path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			before := descriptors(t)
			got, err := node.Adopt(1, new(Forms), int(f.Fd()))
			if check("adopted", err); err == nil {
				got.Disown()
				if err := got.Close(); err != nil {
					t.Error(err)
				}
			}
			if _, err := f.Stat(); err != nil || descriptors(t) != before {
				t.Errorf("%d descriptors are open, want %d: %v", descriptors(t), before, err)
			}
		})
	}
	if _, err := openFile(regular+"2", deviceNumber(1, 3)); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("no file: %v", err)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestCheckVersions: the interface of the commands and that of the driver are the ones that are known.
func TestCheckVersions(t *testing.T) {
	for _, tt := range []struct {
		core, driver string
		what         string
		got, want    int64
	}{
		{core: "6", driver: "1"},
		{"5", "1", "infiniband_verbs/abi_version", 5, 6},
		{"7", "1", "infiniband_verbs/abi_version", 7, 6},
		{"", "1", "infiniband_verbs/abi_version", -1, 6},
		{"six", "1", "infiniband_verbs/abi_version", -1, 6},
		{"6", "0", "uverbs0/abi_version", 0, 1},
		{"6", "2", "uverbs0/abi_version", 2, 1},
		{"6", "", "uverbs0/abi_version", -1, 1},
	} {
		root := host(t, "1:3", tt.core, tt.driver)
		err := ReadNode(root, "uverbs0").Check(root, 1)
		var e *VersionError
		if tt.what == "" {
			if err != nil {
				t.Errorf("%q and %q: %v", tt.core, tt.driver, err)
			}
		} else if !errors.As(err, &e) || *e != (VersionError{tt.what, tt.got, tt.want}) ||
			!errors.Is(err, syscall.ENOSYS) {
			t.Errorf("%q and %q: %v, want that %s is %d", tt.core, tt.driver, err, tt.what, tt.got)
		}
	}
}
