package bus

import (
	"path/filepath"
)

// workerInfo names the worker inside of the node of a data directory.
type workerInfo struct {
	Name string `json:"name"`
}

// RecordWorker notes the name of the worker that runs inside of the node, so that the next node on the data directory
// knows that it has ended.
func (s *Server) RecordWorker(name string) error {
	return writeSealed(filepath.Join(s.cfg.DataDir, workFile), workerInfo{name})
}

// LastWorker returns the worker of the last node on the data directory that had one, "" when that is not known. Its
// process has ended: only one node runs on a data directory.
func (s *Server) LastWorker() string {
	var info workerInfo
	if readSealed(filepath.Join(s.cfg.DataDir, workFile), &info) != nil {
		return ""
	}
	return info.Name
}
