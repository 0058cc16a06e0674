package mlx5dv

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"syscall"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/pollfd"
)

// DevXQueries asks the device about objects without waiting for each answer. It belongs to its
// Device and is safe for concurrent use; one goroutine at a time reads, on Go's netpoller.
//
// C: struct mlx5dv_devx_cmd_comp.
type DevXQueries struct {
	node
	reader *pollfd.Reader

	mu   sync.Mutex
	last uint64               // number of the last query
	open map[uint64]devxQuery // those whose answer was not read, by number
}

// devxQuery is a query that is under way.
type devxQuery struct {
	cookie uint64
	opcode uint16
	out    int // bytes of the answer
}

// DevXAnswer is the answer to a query.
type DevXAnswer struct {
	Cookie uint64 // of the query
	Out    []byte // as long as was asked for
	Err    error  // a *CommandError if the device refused, else nil
}

// CreateDevXQueries makes an object that starts queries and returns their answers.
//
// C: mlx5dv_devx_create_cmd_comp(3), of libmlx5 v23.
func CreateDevXQueries(dev *ibv.Device) (*DevXQueries, error) {
	c, q := begin(dev, "mlx5dv create devx queries"), &DevXQueries{open: map[uint64]devxQuery{}}
	return create(c, q, &q.node, "devx queries", func() (uintptr, error) {
		h, fd, err := c.lib.DevXCreateCmdComp(c.handle)
		if err != nil {
			return 0, explainDevX(dev, err)
		}
		if q.reader, err = pollfd.NewReader(fd, "mlx5dv devx queries"); err != nil {
			_ = c.lib.DevXDestroyCmdComp(h)
		}
		return h, err
	})
}

// Start has the device asked about an object by a command. The answer, of out bytes, is read with
// the cookie; cookies need not differ. The kernel bounds the number of unread answers.
//
// C: mlx5dv_devx_obj_query_async(3).
func (q *DevXQueries) Start(obj *DevXObject, cookie uint64, in []byte, out int) error {
	c := q.begin("mlx5dv start devx query")
	return c.do(func() error {
		switch {
		case obj == nil:
			return &ibv.ArgError{Arg: "obj", Got: "nil", Want: "an open object"}
		case out < 0:
			return &ibv.ArgError{Arg: "out", Got: fmt.Sprintf("%d bytes", out), Want: "at least 16"}
		}
		if err := c.use(&obj.node, "obj"); err != nil {
			return err
		}
		return command(c.dev, in, make([]byte, min(out, mostCommand+1)), func() error {
			id := q.add(devxQuery{cookie, binary.BigEndian.Uint16(in), out})
			err := c.lib.DevXObjQueryAsync(obj.handle, in, out, id, q.handle)
			if err != nil {
				q.take(id)
			}
			return err
		})
	})
}

func (q *DevXQueries) add(d devxQuery) (id uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last++
	q.open[q.last] = d
	return q.last
}

func (q *DevXQueries) take(id uint64) (d devxQuery, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	d, ok = q.open[id]
	delete(q.open, id)
	return d, ok
}

const (
	answerHeader = 8   // the number of the query
	eremoteio    = 121 // the device refused
)

// Read waits for an answer. The error is of reading; the answer has the device's status.
//
// C: mlx5dv_devx_get_async_cmd_comp(3).
func (q *DevXQueries) Read(ctx context.Context) (a DevXAnswer, err error) {
	err = q.do("mlx5dv read devx answer", func() (err error) {
		a, err = q.read(ctx)
		return err
	})
	return a, err
}

func (q *DevXQueries) read(ctx context.Context) (a DevXAnswer, err error) {
	var b []byte
	err = q.reader.Read(ctx, func() error {
		q.mu.Lock() // no query starts that needs more room than b has
		defer q.mu.Unlock()
		most := 0
		for _, d := range q.open {
			most = max(most, d.out)
		}
		if b == nil || len(b) < answerHeader+most {
			b = make([]byte, answerHeader+most)
		}
		return q.lib.DevXGetAsyncCmdComp(q.handle, b)
	})
	if err != nil {
		return a, err
	}
	id := binary.NativeEndian.Uint64(b)
	d, ok := q.take(id)
	if !ok {
		return a, fmt.Errorf("an answer to query %d, which nobody started", id)
	}
	a.Cookie, a.Out = d.cookie, b[answerHeader:][:d.out:d.out]
	if s := CommandStatus(a.Out[0]); s != 0 {
		a.Err = &CommandError{Opcode: d.opcode, Status: s, Syndrome: binary.BigEndian.Uint32(a.Out[4:]),
			Err: syscall.Errno(eremoteio)}
	}
	return a, nil
}

// Close discards unread answers. Read of other goroutines returns ibv.ErrClosed.
//
// C: mlx5dv_devx_destroy_cmd_comp(3).
func (q *DevXQueries) Close() error {
	q.reader.Close()
	return q.destroy(q.lib.DevXDestroyCmdComp)
}
