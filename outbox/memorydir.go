package outbox

import (
	"bytes"
	"io"
	"io/fs"
	"maps"
	"slices"
	"time"
)

// memoryDir is a flat, read-only file system of texts that were made in memory.
// testing/fstest has one, but a test package has no place in an application.
type memoryDir map[string][]byte

// Open implements [fs.FS].
func (d memoryDir) Open(name string) (fs.File, error) {
	if name == "." {
		return &openDir{entries: d.entries()}, nil
	}
	text, ok := d[name]
	if !ok || !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &openFile{Reader: bytes.NewReader(text), entry: memoryEntry{name, int64(len(text))}}, nil
}

func (d memoryDir) entries() []fs.DirEntry {
	entries := make([]fs.DirEntry, 0, len(d))
	for _, name := range slices.Sorted(maps.Keys(d)) {
		entries = append(entries, memoryEntry{name, int64(len(d[name]))})
	}
	return entries
}

// memoryEntry is a file's DirEntry and FileInfo in one.
type memoryEntry struct {
	name string
	size int64
}

func (e memoryEntry) Name() string               { return e.name }
func (e memoryEntry) Size() int64                { return e.size }
func (e memoryEntry) Mode() fs.FileMode          { return 0o444 }
func (e memoryEntry) Type() fs.FileMode          { return 0 }
func (e memoryEntry) ModTime() time.Time         { return time.Time{} }
func (e memoryEntry) IsDir() bool                { return false }
func (e memoryEntry) Sys() any                   { return nil }
func (e memoryEntry) Info() (fs.FileInfo, error) { return e, nil }

type openFile struct {
	*bytes.Reader
	entry memoryEntry
}

func (f *openFile) Stat() (fs.FileInfo, error) { return f.entry, nil }
func (f *openFile) Close() error               { return nil }

type openDir struct{ entries []fs.DirEntry }

func (f *openDir) Stat() (fs.FileInfo, error) { return dirInfo{}, nil }
func (f *openDir) Close() error               { return nil }
func (f *openDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: ".", Err: fs.ErrInvalid}
}

// ReadDir implements [fs.ReadDirFile].
func (f *openDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 {
		rest := f.entries
		f.entries = nil
		return rest, nil
	}
	if len(f.entries) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(f.entries))
	page := f.entries[:n]
	f.entries = f.entries[n:]
	return page, nil
}

type dirInfo struct{}

func (dirInfo) Name() string       { return "." }
func (dirInfo) Size() int64        { return 0 }
func (dirInfo) Mode() fs.FileMode  { return fs.ModeDir | 0o555 }
func (dirInfo) ModTime() time.Time { return time.Time{} }
func (dirInfo) IsDir() bool        { return true }
func (dirInfo) Sys() any           { return nil }
