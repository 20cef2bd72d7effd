import { render } from 'preact'
import { App } from './app.tsx'
import { listenKeys } from './keys.ts'
import { follow, readStatus } from './node.ts'
import { navigate } from './route.ts'
import { applyTheme } from './theme.ts'
import './style/tokens.css'
import './style/base.css'
import './style/controls.css'
import './style/pages.css'

applyTheme()
navigate()
listenKeys()
void readStatus()
follow()
render(<App />, document.getElementById('app') as HTMLElement)
