/** Whether the server wants a token that this page does not have. */
import { onTokenWanted } from "../api/token";

export const access = $state<{ wanted: boolean; refused: boolean }>({ wanted: false, refused: false });

/** Begin to listen; answers how to stop. */
export function watchAccess(): () => void {
  return onTokenWanted((refused) => {
    access.wanted = true;
    access.refused ||= refused;
  });
}
