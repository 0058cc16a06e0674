package mlx5

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

// numberSize is the size of the number that an event or an answer begins with.
const numberSize = 8

// DevXCreateEventChannel makes a file of events.
func (c devX) DevXCreateEventChannel(flags uint32) (*eventFile, int, error) {
	fd, err := uverbs.MethodFD(c.file, "devx_event_fd_alloc", objectEvents, methodCreate, attr0,
		uverbs.Uint32(attr0+1, flags))
	if err != nil {
		return nil, -1, unsupported(err)
	}
	e := &eventFile{object: object{c: c.context}, fd: fd}
	return e, fd, nil
}

// DevXDestroyEventChannel closes a file of events.
func (e *eventFile) DevXDestroyEventChannel() error { return uverbs.CloseFD(e.fd) }

// DevXSubscribe has events of types delivered, with a cookie. object is 0 for those of the device.
func (e *eventFile) DevXSubscribe(object handle, types []uint16, cookie uint64) error {
	return e.subscribe(object, types, uverbs.Uint64(attr0+4, cookie))
}

// DevXSubscribeFD has events of a type signal an eventfd.
func (e *eventFile) DevXSubscribeFD(fd int, object handle, typ uint16) error {
	return e.subscribe(object, []uint16{typ}, uverbs.Uint32(attr0+3, uint32(fd)))
}

func (e *eventFile) subscribe(of handle, types []uint16, how uverbs.Arg) error {
	o := new(obj)
	if of != 0 {
		var err error
		if o, err = mine[obj](e.c, of); err != nil {
			return err
		}
	}
	return unsupported(e.c.file.Method("devx_subscribe_event", objectDevX, devxSubscribe, uverbs.FD(attr0, e.fd),
		uverbs.If(of != 0, uverbs.Handle(attr0+1, o.number)), uverbs.In(attr0+2, uverbs.BytesOf(types)), how))
}

// DevXGetEvent reads an event: its cookie, and what the device says of it. It returns how many bytes that are.
func (e *eventFile) DevXGetEvent(b []byte) (int, error) { return uverbs.ReadSome(e.fd, b, numberSize) }

// DevXCreateCmdComp makes a file of answers.
func (c devX) DevXCreateCmdComp() (*answerFile, int, error) {
	fd, err := uverbs.MethodFD(c.file, "devx_cmd_fd_alloc", objectAnswers, methodCreate, attr0)
	if err != nil {
		return nil, -1, unsupported(err)
	}
	a := &answerFile{object: object{c: c.context}, fd: fd, sizes: make(map[uint64]int)}
	return a, fd, nil
}

// DevXDestroyCmdComp closes a file of answers.
func (a *answerFile) DevXDestroyCmdComp() error { return uverbs.CloseFD(a.fd) }

// DevXObjQueryAsync asks about an object by a command. The answer, of n bytes, comes with a number, which no other
// query of the file has.
func (o *obj) DevXObjQueryAsync(in []byte, n int, id uint64, a *answerFile) error {
	if a.c != o.c {
		return syscall.EINVAL
	}
	a.mu.Lock()
	a.sizes[id] = n // before the answer can come
	a.mu.Unlock()
	err := o.c.file.Method("devx_obj_query_async", objectObj, methodQueryAsync, uverbs.Handle(attr0, o.number),
		uverbs.In(attr0+1, in), uverbs.FD(attr0+2, a.fd), uverbs.Uint64(attr0+3, id), uverbs.Uint64(attr0+4, uint64(n)))
	if err != nil {
		a.take(id)
	}
	return unsupported(err)
}

// take returns the size of an answer that was asked for.
func (a *answerFile) take(id uint64) (n int, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n, ok = a.sizes[id]
	delete(a.sizes, id)
	return n, ok
}

// DevXGetAsyncCmdComp reads an answer: the number of the query and what the device says.
func (a *answerFile) DevXGetAsyncCmdComp(b []byte) error {
	n, err := uverbs.ReadSome(a.fd, b, numberSize)
	if err != nil {
		return err
	}
	id := binary.NativeEndian.Uint64(b)
	want, ok := a.take(id)
	if !ok {
		return &uverbs.ReplyError{Command: "devx_obj_query_async", Field: "number", Got: id, Want: "that of a query"}
	}
	return uverbs.Check(n == numberSize+want, "devx_obj_query_async", "bytes of an answer", uint64(n),
		fmt.Sprint(numberSize+want))
}
