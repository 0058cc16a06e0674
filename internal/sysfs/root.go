package sysfs

import (
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/secure"
)

const (
	// maxAttr bounds one attribute file; the kernel's own limit is a page.
	maxAttr = 4096
	// maxNames bounds one directory. GID tables have at most 65535 entries.
	maxNames = 1 << 16
)

var buffers = sync.Pool{New: func() any { return new([maxAttr + 1]byte) }}

// Why a file is not read, although it can be opened.
var (
	ErrTooLarge   = errors.New("larger than 4096 bytes, so not an attribute")
	ErrNotRegular = errors.New("not a regular file")
)

// A ValueError is an attribute that does not have the kernel's form.
type ValueError struct {
	Text string // the attribute's, at most 64 bytes of it
	Want string // the form
}

// Error returns one line.
func (e *ValueError) Error() string { return "is " + strconv.Quote(e.Text) + ", want " + e.Want }

// Root is the path where sysfs is mounted. The empty Root is /sys.
type Root string

// DefaultRoot returns the root that libibverbs uses: SYSFS_PATH if it is set, otherwise /sys. A
// program with more privileges than its caller always uses /sys.
func DefaultRoot() Root { return Root(secure.Getenv("SYSFS_PATH")) }

// String returns the path.
func (r Root) String() string {
	if r == "" {
		return "/sys"
	}
	if s := strings.TrimRight(string(r), "/"); s != "" {
		return s
	}
	return "/"
}

// Live reports whether this is the kernel's tree, and no copy of one.
func (r Root) Live() bool { return r.String() == "/sys" || isSysfs(r.String()) }

func (r Root) path(elem ...string) string {
	return r.String() + "/" + strings.Join(elem, "/")
}

// ClassDir returns the directory that lists the RDMA devices.
func (r Root) ClassDir() string { return r.path("class", "infiniband") }

// VerbsDir returns the directory that lists the character devices of the RDMA devices.
func (r Root) VerbsDir() string { return r.path("class", "infiniband_verbs") }

// validName reports whether name may be one element of a path.
func validName(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= 255 && !strings.ContainsAny(name, "/\x00")
}

func badName(kind, name string) *fs.PathError {
	return &fs.PathError{Op: "open", Path: kind + " " + strconv.Quote(name), Err: fs.ErrInvalid}
}

// text reads the attribute name, without the line end; "" if it cannot be read. It sets d.failed if
// the process lacked a resource to read it.
func (d *dir) text(name string) string {
	s, err := d.attr(name)
	d.note(err)
	return s
}

// optional is text for an attribute that not every kernel, driver or device has.
func (d *dir) optional(name string) string {
	s, _ := d.known(name)
	return s
}

// known is optional; ok is false if the attribute cannot be read.
func (d *dir) known(name string) (s string, ok bool) {
	s, err := d.attr(name)
	if !Absent(err) {
		d.note(err)
	}
	return s, err == nil
}

// note records why a value is not known.
func (d *dir) note(err error) {
	if Exhausted(err) {
		d.failed = err
	}
	var at *fs.PathError
	if d.unread != nil && errors.As(err, &at) {
		*d.unread = append(*d.unread, at)
	}
}

// malformed records that an attribute does not have the kernel's form, unless it could not be read.
func (d *dir) malformed(name, text, want string) {
	if text != "" || !d.noted(name) {
		d.note(&fs.PathError{Op: "parse", Path: d.path + "/" + name,
			Err: &ValueError{Text: text[:min(len(text), 64)], Want: want}})
	}
}

func (d *dir) noted(name string) bool {
	return d.unread != nil && slices.ContainsFunc(*d.unread, func(e *fs.PathError) bool {
		return e.Path == d.path+"/"+name
	})
}

// unreadDir returns the error of a directory that is there and cannot be opened.
func unreadDir(err error) []*fs.PathError {
	var at *fs.PathError
	if errors.As(err, &at) && !Absent(err) {
		return []*fs.PathError{at}
	}
	return nil
}

// Absent reports whether err says that the kernel or the driver does not have an attribute.
func Absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.EINVAL) ||
		errors.Is(err, syscall.EOPNOTSUPP)
}

// Exhausted reports whether err is a lack of descriptors or memory. An attribute that could not be
// read for that reason must not be treated as absent.
func Exhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// attr is text with its error.
func (d *dir) attr(name string) (string, error) {
	buf := buffers.Get().(*[maxAttr + 1]byte)
	defer buffers.Put(buf)
	n, err := d.read(name, buf[:])
	if err != nil {
		return "", err
	}
	return strings.TrimRight(string(buf[:n]), "\n\x00"), nil
}

// number reads an attribute that holds one number.
func (d *dir) number(name string) (int64, bool) { return parseNumber(d.text(name)) }

// bounded reads a number from least to most; 0 if it is not known.
func (d *dir) bounded(name string, least, most int64, want string) int64 {
	v, ok := d.number(name)
	if !ok || v < least || v > most {
		d.malformed(name, "", want)
		return 0
	}
	return v
}

// indices returns the names in the directory that are numbers, in ascending order.
func (d *dir) indices() ([]int, error) {
	names, err := d.names()
	if err != nil {
		return nil, err
	}
	return sortedIndices(names), nil
}
