package provider

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// DeviceDir is the folder of the kernel's device files.
const DeviceDir = "/dev/infiniband"

// CMFile is the name of rdma_cm's file in [DeviceDir].
const CMFile = "rdma_cm"

// drivers maps the name of a device's kernel driver to its provider.
var drivers = map[string]string{
	"mlx5_core": "mlx5", "mlx4_core": "mlx4", "ib_mthca": "mthca",
	"bnxt_en": "bnxt_re", "bnxt_re": "bnxt_re",
	"cxgb4": "cxgb4", "iw_cxgb4": "cxgb4",
	"efa": "efa", "erdma": "erdma", "ionic": "ionic", "mana": "mana", "vmw_pvrdma": "vmw_pvrdma",
	"hfi1": "hfi1verbs", "ib_qib": "ipathverbs",
	"hns3": "hns", "hns_roce": "hns",
	"ice": "irdma", "i40e": "irdma", "irdma": "irdma", "idpf": "irdma",
	"be2net": "ocrdma", "qede": "qedr",
}

// Of returns the provider that serves a device, "" if that is unknown.
func Of(d sysfs.Device) string {
	// A subfunction's driver is "mlx5_core.sf".
	driver, _, _ := strings.Cut(d.Driver, ".")
	if p := drivers[driver]; p != "" {
		return p
	}
	// A software device is on no bus. Its name usually begins with the provider's, as do other
	// names that udev did not change.
	known := []string{"rxe", "siw"}
	for _, p := range drivers {
		known = append(known, p)
	}
	for _, p := range known {
		if rest, ok := strings.CutPrefix(d.Name, p); ok && strings.IndexAny(rest, "_0123456789") == 0 {
			return p
		}
	}
	return ""
}

// NoFile returns why a device of the kernel has no device file, "" if it has one. devDir is [DeviceDir].
func NoFile(root sysfs.Root, devDir string, d sysfs.Device) string {
	if d.Uverbs == "" {
		if _, err := os.Stat(root.VerbsDir()); errors.Is(err, fs.ErrNotExist) {
			return root.VerbsDir() + " is missing: the kernel module ib_uverbs is not loaded (modprobe ib_uverbs)"
		}
		return root.VerbsDir() + " has no entry for it"
	}
	if file := filepath.Join(devDir, d.Uverbs); !exists(file) {
		return file + " " + MissingFile(file)
	}
	return ""
}

// Why returns why libibverbs does not list a device that the kernel has, if files show the reason. devDir is
// [DeviceDir].
func (s *Set) Why(root sysfs.Root, devDir string, d sysfs.Device) string {
	if why := NoFile(root, devDir, d); why != "" {
		return why
	}
	if s.ABI == "" {
		return "no provider accepts it; the file " + s.Library + " does not show which ones it loads"
	}
	name := Of(d)
	if name == "" {
		return "no provider accepts it, and its driver does not show which one should; " + s.loads()
	}
	var problems, missing []string
	for _, f := range s.Files {
		switch {
		case f.Name != name:
		case f.Loaded:
			return fmt.Sprintf("its provider %s is loaded and does not accept it: "+
				"it is older than this card%s, or than the kernel driver's ABI%s",
				f.Path, in(root.PCIID(d.Name)), in(root.VerbsABI(d.Uverbs)))
		case f.Problem == "":
			return fmt.Sprintf("its provider %s could not be loaded, or could not when devices were first listed, "+
				"after which libibverbs does not try again; libibverbs prints the reason on standard error", f.Path)
		case f.Path != "":
			problems = append(problems, "its provider "+f.Path+" "+f.Problem)
		default:
			missing = append(missing, f.Problem)
		}
	}
	switch {
	case len(problems) > 0:
		// Installing a file that exists does not help.
		return strings.Join(problems, "; ")
	case len(missing) == 0:
		missing = []string{fmt.Sprintf("has no file lib%s-rdmav%s.so in %s", name, s.ABI, s.places())}
	}
	return fmt.Sprintf("its provider %s %s: %s", name, missing[0], install())
}

// loads lists the providers that libibverbs loads.
func (s *Set) loads() string {
	var names []string
	for _, f := range s.Files {
		if f.Problem == "" {
			names = append(names, f.Name)
		}
	}
	if len(names) == 0 {
		return "libibverbs finds no provider in " + s.places() + ": " + install()
	}
	return "libibverbs loads " + strings.Join(names, " ")
}

func in(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

// MissingFile explains a missing device file: "is missing: …".
func MissingFile(path string) string {
	module := "ib_uverbs"
	if filepath.Base(path) == CMFile {
		module = "rdma_ucm"
	}
	if dir := filepath.Dir(path); !exists(dir) {
		return "is missing, with its folder: in a container pass the devices (--device " + dir +
			"), on a host load the kernel module " + module
	}
	return "is missing: in a container pass it (--device " + path +
		"), on a host udev or devtmpfs should have made it for the kernel module " + module
}
